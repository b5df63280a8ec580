// hnswlib behind a wall: its header is included here alone, since it defines plain functions, and its exceptions end
// here.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
// Without the library's own vector code, whose prefetches read the link behind a full list, outside of its memory.
#define NO_MANUAL_VECTORIZATION
#include "hnswlib/hnswlib.h"
#include "server/exec/mutex.h"
#include "server/kernels/row_pairs.h"
#include "server/search/hnsw_graph.h"
#include "server/search/scan_blocks.h"

namespace embedding {
namespace {

using Library = hnswlib::HierarchicalNSW<float>;
using hnswlib::labeltype;
using hnswlib::tableint;

// What hnswlib takes for a row beside its links: a mutex, an entry of its map of labels, a level, a pointer, a label
// and a mark of the walk.
constexpr int64_t kLibraryBytesPerRow = 40 + 48 + 4 + 8 + 8 + 2;

// Rows between two looks at the stop predicate.
constexpr int64_t kBlockRows = 16;

struct RowSource {
  const EmbeddingTable& table;
  const float* inverse_norms;  // null unless metric is cosine
  ElementType type;
  size_t dim;
};

// hnswlib keeps no copy of the rows: where it believes a vector to be lies its label, the id of a row in the table.
labeltype RowOf(const void* vector) {
  labeltype row;
  std::memcpy(&row, vector, sizeof(row));
  return row;
}

const RowSource& SourceOf(const void* parameter) { return *static_cast<const RowSource*>(parameter); }

// Lower is closer, whatever the metric.
float NegativeDot(const void* a, const void* b, const void* parameter) {
  const RowSource& source = SourceOf(parameter);
  return -DotOfPair(source.type, source.table.row(static_cast<int64_t>(RowOf(a))),
                    source.table.row(static_cast<int64_t>(RowOf(b))), source.dim);
}

float NegativeCosine(const void* a, const void* b, const void* parameter) {
  const float* inverse_norms = SourceOf(parameter).inverse_norms;
  return NegativeDot(a, b, parameter) * inverse_norms[RowOf(a)] * inverse_norms[RowOf(b)];
}

float SquaredL2(const void* a, const void* b, const void* parameter) {
  const RowSource& source = SourceOf(parameter);
  return SquaredL2OfPair(source.type, source.table.row(static_cast<int64_t>(RowOf(a))),
                         source.table.row(static_cast<int64_t>(RowOf(b))), source.dim);
}

class RowSpace final : public hnswlib::SpaceInterface<float> {
 public:
  RowSpace(Metric metric, RowSource source) : metric_(metric), source_(source) {}

  // With no bytes of its own a vector lies where the label does.
  size_t get_data_size() override { return 0; }
  hnswlib::DISTFUNC<float> get_dist_func() override {
    switch (metric_) {
      case Metric::kCosine:
        return NegativeCosine;
      case Metric::kDot:
        return NegativeDot;
      case Metric::kEuclidean:
        break;
    }
    return SquaredL2;
  }
  void* get_dist_func_param() override { return &source_; }

 private:
  const Metric metric_;
  RowSource source_;
};

absl::Status NoMemory() { return absl::ResourceExhaustedError("no memory for the graph of index=hnsw"); }

absl::Status LibraryError(const std::exception& error) {
  // How hnswlib says that malloc failed.
  if (std::strncmp(error.what(), "Not enough memory", 17) == 0) return NoMemory();
  return absl::InternalError(absl::StrCat("index=hnsw: hnswlib says: ", error.what()));
}

// Runs f; what it throws becomes a status.
template <typename Function>
absl::Status Walled(const Function& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const std::exception& error) {
    return LibraryError(error);
  }
}

// Adds rows to the library's graph on all threads.
class Inserter {
 public:
  Inserter(Library& library, const std::vector<uint32_t>& rows, const StopPredicate& stop, const HnswProgress& progress)
      : library_(library),
        rows_(rows),
        stop_(stop),
        progress_(progress),
        blocks_(static_cast<int64_t>(rows.size()), kBlockRows),
        step_(std::max<int64_t>(kBlockRows, static_cast<int64_t>(rows.size()) / 100)) {}

  void RunLane() {
    int64_t begin;
    int64_t end;
    while (!failed_.load(std::memory_order_relaxed) && !stop_.ShouldStop() && blocks_.Take(&begin, &end)) {
      const absl::Status status = Walled([&] {
        for (int64_t i = begin; i < end; ++i) {
          const labeltype row = rows_[static_cast<size_t>(i)];
          library_.addPoint(&row, row);
        }
        return absl::OkStatus();
      });
      if (!status.ok()) return Fail(status);
      Report(end - begin);
    }
  }

  absl::Status status() {
    if (stop_.stopped()) return absl::CancelledError("indexing was stopped");
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  void Fail(const absl::Status& status) {
    failed_.store(true, std::memory_order_relaxed);
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }

  void Report(int64_t added) {
    if (!progress_) return;
    MutexLock lock(&mutex_);
    const int64_t before = std::exchange(done_, done_ + added);
    const bool is_last = done_ == static_cast<int64_t>(rows_.size());
    if (before / step_ != done_ / step_ || is_last) progress_(done_, static_cast<int64_t>(rows_.size()));
  }

  Library& library_;
  const std::vector<uint32_t>& rows_;
  StopPoll stop_;
  const HnswProgress& progress_;
  BlockCounter blocks_;
  const int64_t step_;
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The library's graph in the form of ours: by row ids, without its locks and maps.
absl::Status TakeOver(const Library& library, HnswGraph* graph) {
  const size_t count = library.cur_element_count;
  std::vector<uint32_t> row_of(count);
  for (size_t i = 0; i < count; ++i)
    row_of[i] = static_cast<uint32_t>(library.getExternalLabel(static_cast<tableint>(i)));
  for (size_t i = 0; i < count; ++i) {
    const auto* from = library.get_linklist0(static_cast<tableint>(i));
    uint32_t* to = graph->mutable_lowest() + row_of[i] * graph->lowest_stride();
    to[0] = library.getListCount(const_cast<hnswlib::linklistsizeint*>(from));
    for (uint32_t j = 1; j <= to[0]; ++j) to[j] = row_of[from[j]];
  }
  std::vector<HnswGraph::Level> upper(static_cast<size_t>(std::max(library.maxlevel_, 0)));
  std::vector<uint32_t> below = row_of;  // the number of an element on the level below
  std::vector<uint32_t> here(count);
  for (size_t level = 1; level <= upper.size(); ++level) {
    HnswGraph::Level& to = upper[level - 1];
    std::vector<tableint> members;
    for (size_t i = 0; i < count; ++i) {
      if (library.element_levels_[i] < static_cast<int>(level)) continue;
      here[i] = static_cast<uint32_t>(members.size());
      members.push_back(static_cast<tableint>(i));
    }
    to.links.assign(members.size() * graph->upper_stride(), 0);
    for (size_t n = 0; n < members.size(); ++n) {
      to.below.push_back(below[members[n]]);
      const auto* from = library.get_linklist(members[n], static_cast<int>(level));
      uint32_t* list = to.links.data() + n * graph->upper_stride();
      list[0] = library.getListCount(const_cast<hnswlib::linklistsizeint*>(from));
      for (uint32_t j = 1; j <= list[0]; ++j) list[j] = here[from[j]];
    }
    std::swap(below, here);
  }
  // What is `below` now are the numbers on the top level, or row ids where there is but one.
  const int64_t entry = count == 0 ? -1 : below[library.enterpoint_node_];
  return graph->SetUpper(std::move(upper), entry);
}

}  // namespace

absl::StatusOr<HnswGraph> BuildHnswGraph(const EmbeddingTable& table, const HnswOutsiders& outsiders,
                                         const HnswParameters& parameters, WorkerPool& pool, const StopPredicate& stop,
                                         const HnswProgress& progress) {
  std::vector<uint32_t> rows;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    if (outsiders.inside[static_cast<size_t>(row)]) rows.push_back(static_cast<uint32_t>(row));
  }
  absl::StatusOr<HnswGraph> graph = HnswGraph::Create(parameters, table.num_rows());
  if (!graph.ok() || rows.empty()) return graph;
  const int64_t link_bytes = static_cast<int64_t>(graph->lowest_stride() * sizeof(uint32_t));
  absl::StatusOr<TableMemoryClaim> claim =
      TableMemoryClaim::Ask(static_cast<int64_t>(rows.size()) * (link_bytes + kLibraryBytesPerRow));
  if (!claim.ok()) return claim.status();

  RowSpace space(parameters.metric, {table, outsiders.inverse_norms.empty() ? nullptr : outsiders.inverse_norms.data(),
                                     ElementTypeOf(table.dtype()), static_cast<size_t>(table.dim())});
  std::optional<Library> library;
  const absl::Status status = Walled([&] {
    library.emplace(&space, rows.size(), static_cast<size_t>(parameters.m),
                    static_cast<size_t>(parameters.ef_construction));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  Inserter inserter(*library, rows, stop, progress);
  pool.RunAndWait(pool.num_threads(), [&inserter](int) { inserter.RunLane(); });
  if (absl::Status s = inserter.status(); !s.ok()) return s;
  if (absl::Status s = Walled([&] { return TakeOver(*library, &*graph); }); !s.ok()) return s;
  return graph;
}

}  // namespace embedding
