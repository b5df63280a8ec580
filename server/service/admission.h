// Bound on work in flight: what is over it is refused at once, so that what is accepted is answered in time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/exec/mutex.h"

namespace embedding {

struct AdmissionLimits {
  int64_t max_in_flight_bytes = int64_t{512} << 20;  // --max-in-flight-bytes: answers being written
  int64_t max_queued_searches = 256;                 // --max-queued-searches: Similarity and NearestNeighbour calls
};

// Thread-safe.
class Admission {
 public:
  explicit Admission(AdmissionLimits limits);

  // Held while an answer is in memory; gives its bytes (and its place in the queue) back when destroyed.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class Admission;
    Ticket(Admission* admission, int64_t bytes, bool search) : admission_(admission), bytes_(bytes), search_(search) {}
    Admission* admission_ = nullptr;
    int64_t bytes_ = 0;
    bool search_ = false;
  };

  // RESOURCE_EXHAUSTED (OVERLOADED, with retry pushback) when the bytes or, for a search, its place are not to be had.
  // An answer larger than max_in_flight_bytes is admitted when nothing else is in flight.
  absl::StatusOr<Ticket> Admit(int64_t answer_bytes, bool search);

  int64_t in_flight_bytes() const;
  int64_t queued_searches() const;

 private:
  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t searches_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace embedding
