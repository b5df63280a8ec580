#include "client/lookup_stream.h"

#include <string>
#include <utility>

#include "client/convert.h"
#include "client/lookup_stream_impl.h"
#include "proto/status_codec.h"

namespace embedding {

LookupStream::LookupStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LookupStream::~LookupStream() {
  if (impl_->finished) return;
  impl_->context.TryCancel();
  Finish().IgnoreError();
}

absl::Status LookupStream::Write(const client::LookupRequest& request) {
  if (absl::Status s = client::CheckShape(request.rows); !s.ok()) return s;
  v1::LookupStreamRequest wire;
  *wire.mutable_lookup()->mutable_table() = client::ToWire(request.table);
  client::LookupPlan(request).ToWire(0, *wire.mutable_lookup());
  {
    // Before the answer can be there.
    std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->waiting.push_back(request);
  }
  if (impl_->stream->Write(wire)) return absl::OkStatus();
  return absl::UnavailableError("the stream has ended; Finish says why");
}

void LookupStream::WritesDone() { impl_->stream->WritesDone(); }

std::optional<absl::StatusOr<client::LookupResult>> LookupStream::Read() {
  v1::LookupStreamResponse response;
  if (!impl_->stream->Read(&response)) return std::nullopt;
  client::LookupRequest request;
  {
    std::lock_guard<std::mutex> lock(impl_->mutex);
    if (impl_->waiting.empty()) {
      return absl::InternalError("the server's answer breaks the contract: more answers than requests");
    }
    request = std::move(impl_->waiting.front());
    impl_->waiting.pop_front();
  }
  if (response.outcome_case() == v1::LookupStreamResponse::kError) {
    const v1::StreamError& error = response.error();
    const auto code = static_cast<absl::StatusCode>(error.code());
    if (code == absl::StatusCode::kOk) {
      return absl::InternalError("the server's answer breaks the contract: an error of code 0");
    }
    return absl::Status(code, error.message());
  }
  const client::LookupPlan plan(request);
  client::LookupResult result;
  if (absl::Status s = plan.Take(0, *response.mutable_lookup(), result); !s.ok()) return s;
  if (absl::Status s = plan.Join(result); !s.ok()) return s;
  result.table = client::FromWire(response.lookup().table());
  return result;
}

absl::Status LookupStream::Finish() {
  impl_->finished = true;
  // The library wants every message read before it tells of the end.
  v1::LookupStreamResponse rest;
  while (impl_->stream->Read(&rest)) continue;
  return FromGrpcStatus(impl_->stream->Finish());
}

void LookupStream::Cancel() { impl_->context.TryCancel(); }

}  // namespace embedding
