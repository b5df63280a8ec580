// The inside of a LookupStream, for the client that opens it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "client/lookup_plan.h"
#include "client/lookup_stream.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/client_context.h"

namespace embedding {

struct LookupStream::Impl {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LookupStreamRequest, v1::LookupStreamResponse>> stream;
  bool finished = false;
  std::mutex mutex;
  // The requests that are not answered yet, against which answers are checked. Guarded by mutex.
  std::deque<client::LookupRequest> waiting;
};

}  // namespace embedding
