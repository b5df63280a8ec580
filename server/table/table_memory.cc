#include "server/table/table_memory.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/exec/mutex.h"

namespace embedding {
namespace {

constexpr char kPayloadUrl[] = "embedding/over-budget";

struct Account {
  Mutex mutex;
  int64_t used ABSL_GUARDED_BY(mutex) = 0;
  int64_t limit ABSL_GUARDED_BY(mutex) = 0;
};

Account& TheAccount() {
  static Account& account = *new Account;
  return account;
}

}  // namespace

void SetTableMemoryLimit(int64_t bytes) {
  Account& account = TheAccount();
  MutexLock lock(&account.mutex);
  account.limit = bytes;
}

int64_t TableMemoryLimit() {
  Account& account = TheAccount();
  MutexLock lock(&account.mutex);
  return account.limit;
}

int64_t TableMemoryUsed() {
  Account& account = TheAccount();
  MutexLock lock(&account.mutex);
  return account.used;
}

TableMemoryClaim::TableMemoryClaim(TableMemoryClaim&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}

TableMemoryClaim& TableMemoryClaim::operator=(TableMemoryClaim&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

TableMemoryClaim::~TableMemoryClaim() {
  if (bytes_ == 0) return;
  Account& account = TheAccount();
  MutexLock lock(&account.mutex);
  account.used -= bytes_;
}

absl::StatusOr<TableMemoryClaim> TableMemoryClaim::Ask(int64_t bytes) {
  Account& account = TheAccount();
  OverBudget over;
  {
    MutexLock lock(&account.mutex);
    if (account.limit == 0 || (account.used <= account.limit && bytes <= account.limit - account.used)) {
      account.used += bytes;
      return TableMemoryClaim(bytes);
    }
    over = {bytes, account.used, account.limit};
  }
  absl::Status refusal = absl::ResourceExhaustedError(
      absl::StrCat("needs ", over.needed_bytes, " bytes of memory beside the ", over.used_bytes,
                   " bytes of tables in memory, allowed are ", over.allowed_bytes,
                   " together: raise --max-table-bytes (without it, the memory limit) or unload a table"));
  refusal.SetPayload(kPayloadUrl,
                     absl::Cord(absl::StrCat(over.needed_bytes, " ", over.used_bytes, " ", over.allowed_bytes)));
  return refusal;
}

TableMemoryClaim TableMemoryClaim::Note(int64_t bytes) {
  Account& account = TheAccount();
  MutexLock lock(&account.mutex);
  account.used += bytes;
  return TableMemoryClaim(bytes);
}

std::optional<OverBudget> OverBudgetOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> numbers = absl::StrSplit(std::string(*payload), ' ');
  OverBudget over;
  if (numbers.size() != 3 || !absl::SimpleAtoi(numbers[0], &over.needed_bytes) ||
      !absl::SimpleAtoi(numbers[1], &over.used_bytes) || !absl::SimpleAtoi(numbers[2], &over.allowed_bytes)) {
    return std::nullopt;
  }
  return over;
}

}  // namespace embedding
