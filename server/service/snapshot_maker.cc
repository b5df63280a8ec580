#include "server/service/snapshot_maker.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/exec/mutex.h"
#include "server/search/exact_index.h"
#include "server/search/hnsw_file.h"
#include "server/service/log.h"
#include "server/table/quote.h"
#include "server/table/table_memory.h"
#include "server/table/table_root.h"

namespace embedding {
namespace {

using SteadyClock = std::chrono::steady_clock;

// For calls that hold a dropped version whose memory a load needs.
constexpr std::chrono::seconds kRoomPatience{5};
constexpr std::chrono::milliseconds kRoomPoll{10};
// Between two lines on how far an index is.
constexpr std::chrono::seconds kIndexLogInterval{2};

}  // namespace

// Whether dropping versions of the table that do not serve made room for a load, or will have in a moment.
bool SnapshotMaker::MakeRoom(const std::string& name, int64_t needed_bytes, int64_t allowed_bytes) {
  const SteadyClock::time_point until = SteadyClock::now() + kRoomPatience;
  const auto fits = [&] { return TableMemoryUsed() <= allowed_bytes - needed_bytes; };
  int64_t idle_bytes = 0;
  for (const SnapshotPtr& idle : registry_->Idle(name)) {
    idle_bytes += idle->table->size_bytes() + idle->index->code_bytes();
    if (const GraphFacts* graph = idle->index->graph(); graph != nullptr) idle_bytes += graph->size_bytes;
  }
  reaper_.AwaitIdle();
  if (!fits() && TableMemoryUsed() - idle_bytes > allowed_bytes - needed_bytes) return false;
  for (;;) {
    if (fits()) return true;
    std::vector<SnapshotPtr> idle = registry_->Idle(name);
    if (!idle.empty()) {
      const uint64_t version = idle.front()->version;
      static_cast<void>(registry_->Drop(name, version));
      Log(LogLevel::kInfo, "version dropped for the memory of a new one", {{"table", name}, {"version", version}});
    } else if (SteadyClock::now() >= until || stop_()) {
      return false;
    } else {
      // Calls still use what was dropped.
      Mutex mutex;
      CondVar never;
      MutexLock lock(&mutex);
      never.WaitUntil(&mutex, SteadyClock::now() + kRoomPoll);
    }
    idle.clear();
    reaper_.AwaitIdle();
  }
}

absl::StatusOr<std::unique_ptr<EmbeddingTable>> SnapshotMaker::LoadWithRoom(const TableSource& source, WorkerPool& pool,
                                                                            std::unique_ptr<ExactRowsBuilder>* rows) {
  for (bool again = false;; again = true) {
    LoadProgress::Report report;
    if (progress_ != nullptr) report = progress_(source.options.name);
    *rows = std::make_unique<ExactRowsBuilder>(source.options.codes);
    absl::StatusOr<std::unique_ptr<EmbeddingTable>> table =
        LoadTable(source.options, limits_, pool, LoadProgress(std::move(report), stop_), rows->get());
    const std::optional<OverBudget> over = OverBudgetOf(table.status());
    if (!over.has_value() || again) return table;
    rows->reset();  // gives its memory back
    if (!MakeRoom(source.options.name, over->needed_bytes, over->allowed_bytes)) return table;
  }
}

absl::StatusOr<std::unique_ptr<NeighbourIndex>> SnapshotMaker::BuildIndex(const TableOptions& options,
                                                                          const EmbeddingTable& table,
                                                                          ExactRowsBuilder& rows, WorkerPool& pool) {
  absl::StatusOr<std::unique_ptr<NeighbourIndex>> exact = BuildExactSearch(options, table, rows, pool);
  if (!exact.ok() || !options.hnsw) return exact;
  absl::StatusOr<HnswParts> parts = MakeGraph(options, table, pool);
  const std::optional<OverBudget> over = OverBudgetOf(parts.status());
  if (over.has_value() && MakeRoom(options.name, over->needed_bytes, over->allowed_bytes)) {
    parts = MakeGraph(options, table, pool);
  }
  if (!parts.ok()) return parts.status();
  return MakeHnswIndex(table, *std::move(exact), *std::move(parts));
}

// From the file beside the table, if that is there and fits; else it is built, and the file is written.
absl::StatusOr<HnswParts> SnapshotMaker::MakeGraph(const TableOptions& options, const EmbeddingTable& table,
                                                   WorkerPool& pool) {
  const HnswParameters parameters = {MetricOf(table.metric()), options.hnsw_m, options.hnsw_ef_construction};
  const std::string path = HnswFilePath(options.path, options.name);
  const std::string shown_path = EscapedText(path, kMaxFileNameBytes);
  absl::StatusOr<HnswParts> parts = ReadHnswParts(table, path, parameters, pool, stop_);
  if (parts.ok() || absl::IsCancelled(parts.status()) || absl::IsResourceExhausted(parts.status())) return parts;
  if (!absl::IsNotFound(parts.status())) {
    Log(LogLevel::kWarning, "the file of the index does not serve, it is built anew",
        {{"table", options.name}, {"path", shown_path}, {"reason", std::string(parts.status().message())}});
  }
  SteadyClock::time_point told = SteadyClock::now();
  const auto progress = [&](int64_t done, int64_t all) {
    if (SteadyClock::now() - told < kIndexLogInterval && done < all) return;
    told = SteadyClock::now();
    Log(LogLevel::kInfo, "building index", {{"table", options.name}, {"rows", done}, {"of", all}});
  };
  parts = BuildHnswParts(table, parameters, pool, stop_, progress);
  if (!parts.ok()) return parts;
  if (absl::Status s = WriteHnswFile(path, table.fingerprint(), parts->graph); !s.ok()) {
    Log(LogLevel::kWarning, "the index is not kept for the next start",
        {{"table", options.name}, {"path", shown_path}, {"reason", std::string(s.message())}});
  }
  return parts;
}

absl::StatusOr<std::unique_ptr<NeighbourIndex>> SnapshotMaker::BuildExactSearch(const TableOptions& options,
                                                                                const EmbeddingTable& table,
                                                                                ExactRowsBuilder& rows,
                                                                                WorkerPool& pool) {
  if (rows.complete()) return BuildExactIndex(table, rows.Take(table));
  // There was no memory for codes beside the rows.
  const bool asked = options.codes == CodesOption::kOn;
  const bool with_codes = WantsCodes(options.codes, table.dtype());
  absl::StatusOr<std::unique_ptr<NeighbourIndex>> index = BuildExactIndex(table, with_codes, pool, stop_);
  const std::optional<OverBudget> over = OverBudgetOf(index.status());
  if (over.has_value() && MakeRoom(options.name, over->needed_bytes, over->allowed_bytes)) {
    index = BuildExactIndex(table, with_codes, pool, stop_);
  }
  if (index.ok() || asked || absl::IsCancelled(index.status())) return index;
  Log(LogLevel::kWarning, "no memory for codes of the rows: searches are slower than they could be",
      {{"table", options.name}, {"reason", std::string(index.status().message())}});
  return BuildExactIndex(table, /*with_codes=*/false, pool, stop_);
}

absl::StatusOr<SnapshotPtr> SnapshotMaker::Make(const TableSource& source, uint64_t version, const Check& check,
                                                WorkerPool& pool) {
  std::unique_ptr<ExactRowsBuilder> rows;
  absl::StatusOr<std::unique_ptr<EmbeddingTable>> table = LoadWithRoom(source, pool, &rows);
  if (!table.ok()) return table.status();
  if (absl::Status s = check(**table); !s.ok()) return s;
  if (stop_()) return absl::CancelledError("the load was stopped");
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->name = source.options.name;
  snapshot->version = version;
  absl::StatusOr<std::unique_ptr<NeighbourIndex>> index = BuildIndex(source.options, **table, *rows, pool);
  if (absl::IsCancelled(index.status())) return index.status();
  if (!index.ok()) return WithPath(source.options.path, index.status());
  snapshot->index = *std::move(index);
  snapshot->default_metric = MetricOf((*table)->metric());
  snapshot->loaded_at = std::chrono::system_clock::now();
  snapshot->table = *std::move(table);
  return reaper_.Own(std::move(snapshot));
}

}  // namespace embedding
