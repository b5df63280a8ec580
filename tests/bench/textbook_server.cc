// The peer that everybody could write in an afternoon: generated callback service, `repeated float`, the C library's
// malloc.
//
//   textbook_server ROWS DIM
//
// Prints the address and serves until stdin ends.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/bench/bench_program.h"
#include "tests/bench/bench_table.h"
#include "tests/bench/textbook.grpc.pb.h"

namespace {

class Service final : public textbook::Embeddings::CallbackService {
 public:
  Service(int64_t num_rows, int64_t dim) : num_rows_(num_rows), dim_(dim), rows_(static_cast<size_t>(num_rows * dim)) {
    for (int64_t row = 0; row < num_rows; ++row) embedding::bench::FillRow(row, dim, rows_.data() + row * dim);
  }

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context, const textbook::LookupRequest* request,
                                   textbook::LookupResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    response->mutable_values()->Reserve(static_cast<int>(request->ids_size() * dim_));
    for (const int64_t id : request->ids()) {
      if (id < 0 || id >= num_rows_) {
        reactor->Finish({grpc::StatusCode::OUT_OF_RANGE, "id out of range"});
        return reactor;
      }
      const float* row = rows_.data() + id * dim_;
      response->mutable_values()->Add(row, row + dim_);
    }
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const int64_t num_rows_;
  const int64_t dim_;
  std::vector<float> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: textbook_server ROWS DIM\n");
    return 2;
  }
  Service service(std::atoll(argv[1]), std::atoll(argv[2]));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return EXIT_FAILURE;
  embedding::bench::ServeUntilStdinEnds(port);
  server->Shutdown(std::chrono::system_clock::now());
  return EXIT_SUCCESS;
}
