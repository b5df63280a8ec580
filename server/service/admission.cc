#include "server/service/admission.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

// When a refused caller may come again: long enough for several answers to have left, short against a deadline.
constexpr int kRetryPushbackMs = 100;

absl::Status Overloaded(const std::string& what, int64_t limit, const std::string& flag) {
  return ErrorWithDetails(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("overloaded: ", what, ", limit ", limit, " (", flag, "); retry after ", kRetryPushbackMs, " ms"),
      {"OVERLOADED",
       {{kRetryPushbackKey, absl::StrCat(kRetryPushbackMs)}, {"limit", absl::StrCat(limit)}, {"flag", flag}},
       {}});
}

// Adds amount unless that would pass limit; true if it was added. With nothing in flight any amount goes.
bool TryAdd(std::atomic<int64_t>& counter, int64_t amount, int64_t limit, int64_t* seen) {
  int64_t now = counter.load(std::memory_order_relaxed);
  do {
    *seen = now;
    if (now != 0 && amount > limit - now) return false;
  } while (!counter.compare_exchange_weak(now, now + amount, std::memory_order_relaxed));
  return true;
}

}  // namespace

Admission::Admission(AdmissionLimits limits) : limits_(limits), counts_(std::make_shared<Counts>()) {}

absl::StatusOr<Admission::Ticket> Admission::Admit(int64_t answer_bytes, bool search) {
  int64_t seen = 0;
  if (search && !TryAdd(counts_->searches, 1, limits_.max_queued_searches, &seen)) {
    return Overloaded(absl::StrCat(seen, " searches in flight"), limits_.max_queued_searches, "--max-queued-searches");
  }
  if (!TryAdd(counts_->bytes, answer_bytes, limits_.max_in_flight_bytes, &seen)) {
    if (search) counts_->searches.fetch_sub(1, std::memory_order_relaxed);
    return Overloaded(absl::StrCat("an answer of ", answer_bytes, " bytes beside ", seen, " bytes in flight"),
                      limits_.max_in_flight_bytes, "--max-in-flight-bytes");
  }
  return Ticket(counts_, answer_bytes, search);
}

int64_t Admission::in_flight_bytes() const { return counts_->bytes.load(std::memory_order_relaxed); }

int64_t Admission::queued_searches() const { return counts_->searches.load(std::memory_order_relaxed); }

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(counts_, other.counts_);
  std::swap(bytes_, other.bytes_);
  std::swap(search_, other.search_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (counts_ == nullptr) return;
  counts_->bytes.fetch_sub(bytes_, std::memory_order_relaxed);
  if (search_) counts_->searches.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace embedding
