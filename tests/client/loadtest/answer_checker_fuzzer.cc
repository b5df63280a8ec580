// Answers of any bytes, in pieces of any size: no crash, and a verdict for each rpc.
#include <cstdint>
#include <string>

#include "client/loadtest/answer_checker.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace embedding::loadtest {
namespace {

v1::TableInfo Info() {
  v1::TableInfo info;
  info.set_name("t");
  info.set_rows(4);
  info.set_dim(2);
  info.set_dtype(v1::DTYPE_F32);
  info.set_metric(v1::METRIC_DOT);
  return info;
}

ReferenceTable Reference() {
  ReferenceTable table(Info());
  v1::LookupResponse row;
  row.mutable_table()->set_fingerprint("f");
  row.mutable_embeddings()->set_dtype(v1::DTYPE_F32);
  row.mutable_embeddings()->add_shape(1);
  row.mutable_embeddings()->add_shape(2);
  row.mutable_embeddings()->set_data(std::string(8, '\0'));
  std::string error;
  for (int64_t id = 0; id < 4; ++id) table.SetRow(id, row, &error);
  return table;
}

class NoTime : public Clock {
 public:
  int64_t NowNs() override { return 0; }
  void SleepUntil(int64_t) override {}
};

}  // namespace
}  // namespace embedding::loadtest

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding::loadtest;
  static const ReferenceTable reference = Reference();
  if (size < 2) return 0;
  const int block_size = data[0] % 64 + 1;
  const ReferenceTable* const known = (data[1] & 1) != 0 ? &reference : nullptr;
  for (const Rpc rpc : {Rpc::kLookup, Rpc::kSimilarity, Rpc::kNeighbours}) {
    const Workload workload({.rpc = rpc, .table = "", .batch_size = 2, .k = 2}, Info());
    AnswerChecker checker(workload, known);
    google::protobuf::io::ArrayInputStream stream(data + 2, static_cast<int>(size - 2), block_size);
    std::string complaint;
    checker.Check(0, &stream, &complaint);
    NoTime clock;
    checker.CheckKept(clock, 1);
  }
  return 0;
}
