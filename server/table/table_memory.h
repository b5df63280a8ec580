// How much memory the tables of the process take, and how much they may.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embedding {

// One account for the process, as the memory is: every table's rows, keys and norms count until they are freed, those
// of a version that only drains too. All functions are thread-safe.

// From now on; 0: no bound, as it is at first.
void SetTableMemoryLimit(int64_t bytes);
int64_t TableMemoryLimit();
int64_t TableMemoryUsed();

// A part of the account, given back when destroyed.
class TableMemoryClaim {
 public:
  TableMemoryClaim() = default;
  TableMemoryClaim(TableMemoryClaim&& other) noexcept;
  TableMemoryClaim& operator=(TableMemoryClaim&& other) noexcept;
  ~TableMemoryClaim();

  // Before the memory is taken. RESOURCE_EXHAUSTED, with the payload that OverBudgetOf reads, if it would pass the
  // limit.
  static absl::StatusOr<TableMemoryClaim> Ask(int64_t bytes);
  // Counts what is small beside the rows, and is not refused.
  static TableMemoryClaim Note(int64_t bytes);

 private:
  explicit TableMemoryClaim(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes_ = 0;
};

struct OverBudget {
  int64_t needed_bytes = 0;
  int64_t used_bytes = 0;     // by the tables in memory
  int64_t allowed_bytes = 0;  // all together
};

// Of a status that Ask gave, also after WithPath(); nullopt for any other.
std::optional<OverBudget> OverBudgetOf(const absl::Status& status);

}  // namespace embedding
