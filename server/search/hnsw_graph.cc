#include "server/search/hnsw_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/search/scan_blocks.h"
#include "server/table/private_memory.h"

namespace embedding {
namespace {

std::string_view BytesOf(const EmbeddingTable& table, int64_t row) {
  return {reinterpret_cast<const char*>(table.row(row)), table.row_bytes()};
}

// (the first of equal rows, another), ascending. rows: ascending.
std::vector<std::pair<uint32_t, uint32_t>> FindTwins(const EmbeddingTable& table, const std::vector<uint32_t>& rows,
                                                     WorkerPool& pool, const StopPredicate& stop) {
  std::vector<std::pair<size_t, uint32_t>> hashed(rows.size());
  BlockCounter blocks(static_cast<int64_t>(rows.size()), 1024);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      for (int64_t i = begin; i < end; ++i) {
        const uint32_t row = rows[static_cast<size_t>(i)];
        hashed[static_cast<size_t>(i)] = {std::hash<std::string_view>()(BytesOf(table, row)), row};
      }
    }
  });
  std::vector<std::pair<uint32_t, uint32_t>> twins;
  if (stop && stop()) return twins;
  std::sort(hashed.begin(), hashed.end());
  for (size_t begin = 0; begin < hashed.size();) {
    size_t end = begin + 1;
    while (end < hashed.size() && hashed[end].first == hashed[begin].first) ++end;
    // Rows of one hash that are not equal after all stay in the graph, each by itself.
    const uint32_t first = hashed[begin].second;
    for (size_t i = begin + 1; i < end; ++i) {
      if (BytesOf(table, first) == BytesOf(table, hashed[i].second)) twins.emplace_back(first, hashed[i].second);
    }
    begin = end;
  }
  std::sort(twins.begin(), twins.end());
  return twins;
}

}  // namespace

absl::StatusOr<HnswOutsiders> FindOutsiders(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                            const StopPredicate& stop) {
  if (table.num_rows() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("index=hnsw takes tables of at most ",
                                                   std::numeric_limits<int32_t>::max(), " rows, this one has ",
                                                   table.num_rows()));
  }
  const int64_t num_rows = table.num_rows();
  HnswOutsiders found;
  found.unjudged = norms.unjudged;
  found.inside.assign(static_cast<size_t>(num_rows), false);
  std::vector<uint32_t> rows;
  for (int64_t row = 0; row < num_rows; ++row) {
    const float norm = norms.norms[static_cast<size_t>(row)];
    if (std::isnan(norm)) continue;
    if (norm == static_cast<float>(kMinNorm)) {
      // Zeros, or a row just that short, which scores like any other.
      const auto* bytes = reinterpret_cast<const unsigned char*>(table.row(row));
      std::vector<float> wide(static_cast<size_t>(table.dim()));
      WidenToF32(ElementTypeOf(table.dtype()), bytes, wide.size(), wide.data());
      const bool is_zero = std::all_of(wide.begin(), wide.end(), [](float x) { return x == 0; });
      (is_zero ? found.zeros : found.unjudged).push_back(row);
      continue;
    }
    rows.push_back(static_cast<uint32_t>(row));
  }
  std::sort(found.unjudged.begin(), found.unjudged.end());
  found.twins = FindTwins(table, rows, pool, stop);
  if (stop && stop()) return absl::CancelledError("indexing was stopped");
  for (const uint32_t row : rows) found.inside[row] = true;
  for (const auto& [first, twin] : found.twins) found.inside[twin] = false;
  found.memory = TableMemoryClaim::Note(
      static_cast<int64_t>(found.inside.size() / 8 + (found.zeros.size() + found.unjudged.size()) * sizeof(int64_t) +
                           found.twins.size() * sizeof(found.twins[0])));
  return found;
}

absl::StatusOr<HnswGraph> HnswGraph::Create(const HnswParameters& parameters, int64_t num_rows) {
  HnswGraph graph;
  graph.parameters_ = parameters;
  graph.num_rows_ = num_rows;
  absl::StatusOr<std::shared_ptr<std::byte>> memory =
      AllocatePrivate(static_cast<size_t>(num_rows) * graph.lowest_stride() * sizeof(uint32_t));
  if (!memory.ok()) return memory.status();
  graph.lowest_ = *std::move(memory);
  return graph;
}

int64_t HnswGraph::size_bytes() const {
  size_t elements = static_cast<size_t>(num_rows_) * lowest_stride();
  for (const Level& level : upper_) elements += level.below.size() + level.links.size() + level.rows.size();
  return static_cast<int64_t>(elements * sizeof(uint32_t));
}

absl::Status HnswGraph::SetUpper(std::vector<Level> upper, int64_t entry) {
  upper_ = std::move(upper);
  entry_ = entry;
  if (absl::Status s = Check(); !s.ok()) return s;
  size_t elements = 0;
  const std::vector<uint32_t>* rows_below = nullptr;
  for (Level& level : upper_) {
    level.rows = level.below;
    if (rows_below != nullptr) {
      for (uint32_t& row : level.rows) row = (*rows_below)[row];
    }
    rows_below = &level.rows;
    elements += level.below.size() + level.links.size() + level.rows.size();
  }
  upper_memory_ = TableMemoryClaim::Note(static_cast<int64_t>(elements * sizeof(uint32_t)));
  return absl::OkStatus();
}

absl::Status HnswGraph::Check() const {
  const auto check_lists = [](const uint32_t* lists, size_t count, size_t stride, size_t level) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t* list = lists + i * stride;
      if (list[0] >= stride) {
        return absl::DataLossError(absl::StrCat("row ", i, " of level ", level, " has ", list[0], " links, at most ",
                                                stride - 1, " are allowed"));
      }
      for (size_t j = 1; j <= list[0]; ++j) {
        if (list[j] < count) continue;
        return absl::DataLossError(
            absl::StrCat("row ", i, " of level ", level, " links to row ", list[j], ", the level has ", count));
      }
    }
    return absl::OkStatus();
  };
  size_t below_count = static_cast<size_t>(num_rows_);
  if (absl::Status s = check_lists(lowest(), below_count, lowest_stride(), 0); !s.ok()) return s;
  for (size_t level = 1; level <= upper_.size(); ++level) {
    const Level& here = upper_[level - 1];
    const size_t count = here.below.size();
    if (count == 0 || here.links.size() != count * upper_stride()) {
      return absl::DataLossError(
          absl::StrCat("level ", level, " has ", count, " rows and ", here.links.size(), " elements of links"));
    }
    for (size_t i = 0; i < count; ++i) {
      if (here.below[i] < below_count) continue;
      return absl::DataLossError(absl::StrCat("row ", i, " of level ", level, " is row ", here.below[i],
                                              " of the level below, which has ", below_count));
    }
    if (absl::Status s = check_lists(here.links.data(), count, upper_stride(), level); !s.ok()) return s;
    below_count = count;
  }
  if (entry_ < -1 || entry_ >= static_cast<int64_t>(below_count) || (entry_ == -1 && !upper_.empty())) {
    return absl::DataLossError(absl::StrCat("the entry is row ", entry_, ", the top level has ", below_count));
  }
  return absl::OkStatus();
}

}  // namespace embedding
