// The door to the room: a path and its options in, a checked table out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/table/embedding_table.h"
#include "server/table/row_observer.h"
#include "server/table/table_options.h"

namespace embedding {

// The caller's side of a load. Empty: nothing is told, nothing stops it.
class LoadProgress {
 public:
  // Told now and then while bytes arrive, from any worker thread, one call at a time. In bytes of rows.
  using Report = std::function<void(int64_t done_bytes, int64_t total_bytes)>;
  // Asked between blocks, from any worker thread: true ends the load with CANCELLED.
  using Stop = std::function<bool()>;

  LoadProgress() = default;
  template <typename Callable>
  requires std::is_invocable_v<Callable&, int64_t, int64_t> LoadProgress(Callable report)  // NOLINT: as a Report would
      : report_(std::move(report)) {}
  LoadProgress(Report report, Stop stop) : report_(std::move(report)), stop_(std::move(stop)) {}

  explicit operator bool() const { return report_ != nullptr; }
  void operator()(int64_t done_bytes, int64_t total_bytes) const { report_(done_bytes, total_bytes); }
  bool stopped() const { return stop_ != nullptr && stop_(); }

 private:
  Report report_;
  Stop stop_;
};

// Where the vocabulary lies that the options name: relative paths start at the table's folder. vocab is not empty.
std::string VocabularyPath(const TableOptions& options);

// Reads the table that the options name, strictly, in parallel on the pool (not from one of its workers).
// Errors: DATA_LOSS for a file that is missing, is no regular file, is not what it should be, or changed while being
// read; INVALID_ARGUMENT for options that do not fit the format; RESOURCE_EXHAUSTED if the system has no memory for the
// rows, or they would pass the bound of table_memory.h; CANCELLED if it was stopped. The message starts with the path,
// names the tensor, row or line, what was found and what was wanted, on one line. observer: shown the rows while they
// arrive; null: nobody is.
absl::StatusOr<std::unique_ptr<EmbeddingTable>> LoadTable(const TableOptions& options, const TableLimits& limits,
                                                          WorkerPool& pool, const LoadProgress& progress = {},
                                                          RowObserver* observer = nullptr);

}  // namespace embedding
