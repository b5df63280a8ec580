// A navigable graph of a table's rows: what an approximate search walks through.
//
// Source: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
// Small World graphs", arXiv 1603.09320.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/hnsw_rows.h"
#include "server/search/metric.h"
#include "server/search/row_norms.h"
#include "server/search/similarity.h"
#include "server/table/embedding_table.h"
#include "server/table/table_memory.h"
#include "server/table/table_options.h"

namespace embedding {

struct HnswParameters {
  Metric metric = Metric::kCosine;
  int m = 16;                 // kMinHnswM..kMaxHnswM: links of a row; twice as many on the lowest level
  int ef_construction = 200;  // 1..kMaxHnswEfConstruction; m counts where it is more

  friend bool operator==(const HnswParameters&, const HnswParameters&) = default;
};

// Rows that the graph leaves out, since links among them would lead nowhere: rows of zeros, which all score alike; rows
// of lengths outside [kMinNorm, kMaxNorm] (row_norms.h); rows equal to an earlier one, its twins. Rows that are not
// finite are never found.
struct HnswOutsiders {
  std::vector<int64_t> zeros;                        // ascending
  std::vector<int64_t> unjudged;                     // ascending
  std::vector<std::pair<uint32_t, uint32_t>> twins;  // (the row in the graph, one equal to it), ascending
  std::vector<bool> inside;                          // [num_rows]
  TableMemoryClaim memory;
};

// Reads the table, in parallel; not from a worker of the pool. CANCELLED once stop says so, INVALID_ARGUMENT for a
// table of 2^31 rows or more.
absl::StatusOr<HnswOutsiders> FindOutsiders(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                            const StopPredicate& stop = {});

// Immutable once built. Lists of links are a count, then as many ids; lists of a level have the same room.
class HnswGraph {
 public:
  // A level above the lowest: its rows are numbered by themselves.
  struct Level {
    std::vector<uint32_t> below;  // [n]: the number of the row on the level below; on level 1 its id
    std::vector<uint32_t> links;  // [n, m + 1], of numbers of this level
    std::vector<uint32_t> rows;   // [n]: the ids; SetUpper fills it
  };

  // A graph of no rows, with room for num_rows. RESOURCE_EXHAUSTED as AllocatePrivate.
  static absl::StatusOr<HnswGraph> Create(const HnswParameters& parameters, int64_t num_rows);

  const HnswParameters& parameters() const { return parameters_; }
  int64_t num_rows() const { return num_rows_; }
  // The id of a row to start from on the lowest level, or its number on the top level; -1: the graph is empty.
  int64_t entry() const { return entry_; }
  // Level 1 first.
  const std::vector<Level>& upper() const { return upper_; }
  int64_t size_bytes() const;

  size_t lowest_stride() const { return 2 * static_cast<size_t>(parameters_.m) + 1; }
  size_t upper_stride() const { return static_cast<size_t>(parameters_.m) + 1; }
  // The list of a row on the lowest level.
  const uint32_t* Links(uint32_t row) const { return lowest() + row * lowest_stride(); }
  const uint32_t* UpperLinks(size_t level, uint32_t number) const {
    return upper_[level - 1].links.data() + number * upper_stride();
  }
  // The id of a row by its number on a level.
  uint32_t RowOf(size_t level, uint32_t number) const { return level == 0 ? number : upper_[level - 1].rows[number]; }
  // [num_rows, lowest_stride].
  const uint32_t* lowest() const { return reinterpret_cast<const uint32_t*>(lowest_.get()); }

  // For those who fill it: first the lists of the lowest level, then the rest. DATA_LOSS names the first count that
  // does not fit its room, or the first link that names no row, of any level.
  uint32_t* mutable_lowest() { return reinterpret_cast<uint32_t*>(lowest_.get()); }
  absl::Status SetUpper(std::vector<Level> upper, int64_t entry);
  // The list of a row on any level, by its number there.
  uint32_t* mutable_links(size_t level, uint32_t number) {
    if (level == 0) return mutable_lowest() + number * lowest_stride();
    return upper_[level - 1].links.data() + number * upper_stride();
  }

 private:
  absl::Status Check() const;

  HnswParameters parameters_;
  int64_t num_rows_ = 0;
  int64_t entry_ = -1;
  std::shared_ptr<std::byte> lowest_;
  std::vector<Level> upper_;
  TableMemoryClaim upper_memory_;
};

// Told now and then, one call at a time: rows that are in the graph, of all that will be.
using HnswProgress = std::function<void(int64_t done_rows, int64_t all_rows)>;

// Builds the graph on all threads of the pool; not from one of its workers. The graph depends on the rows and the
// parameters alone, not on the threads, and where rows are judged by codes, not on the machine.
// rows: of the same metric. Errors: RESOURCE_EXHAUSTED (the memory does not fit: OverBudgetOf, or the system has none),
// CANCELLED once stop, asked between rows from any worker, says so.
absl::StatusOr<HnswGraph> BuildHnswGraph(const HnswRows& rows, const HnswOutsiders& outsiders,
                                         const HnswParameters& parameters, WorkerPool& pool,
                                         const StopPredicate& stop = {}, const HnswProgress& progress = {});

}  // namespace embedding
