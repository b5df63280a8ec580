// Lookups on one stream: many requests under way on one connection, each with an outcome of its own, answered in order.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/types.h"

namespace embedding {

// Made by EmbeddingClient::OpenLookupStream; outlives its client. One thread may write while another reads; each of the
// two by one thread at a time. Requests are not split, nor sent again: what is over a limit comes back as that
// request's error. Destroyed before its end, it cancels what is under way.
class LookupStream {
 public:
  ~LookupStream();
  LookupStream(const LookupStream&) = delete;
  LookupStream& operator=(const LookupStream&) = delete;

  // Sends one request; blocks while the server takes up none, as when its answers are not read. INVALID_ARGUMENT for a
  // request whose sizes contradict each other (nothing is sent); UNAVAILABLE once the stream has broken: Finish says
  // why.
  absl::Status Write(const client::LookupRequest& request);
  // No more requests.
  void WritesDone();
  // The outcome of the next request, in the order of Write: the rows, or that request's error (code and message as
  // Lookup's, without details). Nullopt: there is none to come; Finish says why.
  std::optional<absl::StatusOr<client::LookupResult>> Read();
  // After the last Read: how the stream ended. OK after WritesDone when every answer was read. Unread answers are
  // dropped. UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INVALID_ARGUMENT.
  absl::Status Finish();
  // Ends both directions; Read then ends, and Finish gives CANCELLED. From any thread.
  void Cancel();

 private:
  friend class EmbeddingClient;
  struct Impl;
  explicit LookupStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
