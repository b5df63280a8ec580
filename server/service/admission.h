// Bound on work in flight: what is over it is refused at once, so that what is accepted is answered in time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace embedding {

struct AdmissionLimits {
  int64_t max_in_flight_bytes = int64_t{512} << 20;  // --max-in-flight-bytes: answers being written
  int64_t max_queued_searches = 256;                 // --max-queued-searches: Similarity and NearestNeighbour calls
};

// Thread-safe; two atomics, no lock. Tickets may outlive it: an answer's bytes leave the process after its call has
// ended.
class Admission {
  struct Counts {
    std::atomic<int64_t> bytes{0};
    std::atomic<int64_t> searches{0};
  };

 public:
  explicit Admission(AdmissionLimits limits);

  // Held while an answer is in memory; gives its bytes (and its place in the queue) back when destroyed.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept { *this = std::move(other); }
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class Admission;
    Ticket(std::shared_ptr<Counts> counts, int64_t bytes, bool search)
        : counts_(std::move(counts)), bytes_(bytes), search_(search) {}
    std::shared_ptr<Counts> counts_;
    int64_t bytes_ = 0;
    bool search_ = false;
  };

  // RESOURCE_EXHAUSTED (OVERLOADED, with kRetryPushbackKey of status_codec.h) when the bytes or, for a search, its
  // place are not to be had. An answer larger than max_in_flight_bytes is admitted when nothing else is in flight.
  absl::StatusOr<Ticket> Admit(int64_t answer_bytes, bool search);

  int64_t in_flight_bytes() const;
  int64_t queued_searches() const;

 private:
  const AdmissionLimits limits_;
  const std::shared_ptr<Counts> counts_;
};

}  // namespace embedding
