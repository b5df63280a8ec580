// From the file of a table to a snapshot that calls can use: rows, norms, codes and graph, and the memory for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/exact_rows.h"
#include "server/search/hnsw_index.h"
#include "server/service/snapshot.h"
#include "server/service/snapshot_reaper.h"
#include "server/table/load_table.h"
#include "server/table/table_options.h"
#include "server/table/table_source.h"

namespace embedding {

// Where memory does not suffice, versions of the same table that do not serve are dropped. One thread at a time.
class SnapshotMaker {
 public:
  // Called when a load begins; what it gives is told of the progress. May be empty.
  using Progress = std::function<LoadProgress::Report(const std::string& table)>;
  // Whether a table that was read may serve; asked before its index is built.
  using Check = std::function<absl::Status(const EmbeddingTable& table)>;

  // registry: of the versions, outlives this. stop: asked from any thread; ends what runs.
  SnapshotMaker(TableRegistry* registry, TableLimits limits, Progress progress, StopPredicate stop)
      : registry_(registry), limits_(limits), progress_(std::move(progress)), stop_(std::move(stop)) {}

  // The snapshot, to be published, which may outlive this. Not from a worker of the pool. Errors of LoadTable and of
  // check; RESOURCE_EXHAUSTED: no memory for codes or a graph that were asked for; CANCELLED: stopped.
  absl::StatusOr<SnapshotPtr> Make(const TableSource& source, uint64_t version, const Check& check, WorkerPool& pool);

 private:
  bool MakeRoom(const std::string& name, int64_t needed_bytes, int64_t allowed_bytes);
  // rows: becomes what was found out while the rows arrived.
  absl::StatusOr<std::unique_ptr<EmbeddingTable>> LoadWithRoom(const TableSource& source, WorkerPool& pool,
                                                               std::unique_ptr<ExactRowsBuilder>* rows);
  absl::StatusOr<std::unique_ptr<NeighbourIndex>> BuildIndex(const TableOptions& options, const EmbeddingTable& table,
                                                             ExactRowsBuilder& rows, WorkerPool& pool);
  absl::StatusOr<std::unique_ptr<NeighbourIndex>> BuildExactSearch(const TableOptions& options,
                                                                   const EmbeddingTable& table, ExactRowsBuilder& rows,
                                                                   WorkerPool& pool);
  absl::StatusOr<HnswParts> MakeGraph(const TableOptions& options, const EmbeddingTable& table, WorkerPool& pool);

  TableRegistry* const registry_;
  const TableLimits limits_;
  const Progress progress_;
  const StopPredicate stop_;
  SnapshotReaper reaper_;
};

}  // namespace embedding
