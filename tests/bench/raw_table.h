// Raw F32 files, as drivers write them, through the server's own loader, and ids of what was found in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/search/neighbour_index.h"
#include "server/table/load_table.h"
#include "tests/bench/bench_program.h"

namespace embedding::bench {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(std::string(value.status().message()));
  return *std::move(value);
}

inline TableOptions RawTable(std::string path, int64_t dim) {
  TableOptions options;
  options.name = "bench";
  options.path = std::move(path);
  options.format = TableFormat::kRaw;
  options.dtype = Dtype::kF32;
  options.dim = dim;
  return options;
}

inline std::unique_ptr<EmbeddingTable> ReadTable(const std::string& path, int64_t num_rows, int64_t dim,
                                                 WorkerPool& pool) {
  auto table = ValueOrDie(LoadTable(RawTable(path, dim), TableLimits(), pool));
  if (table->num_rows() != num_rows) Die(path + " has another size");
  return table;
}

// Behind those of earlier queries.
inline void AppendIds(const NeighbourResult& result, Ids* ids) {
  for (const auto& neighbours : result.neighbours) {
    ids->emplace_back();
    for (const Neighbour& neighbour : neighbours) ids->back().push_back(neighbour.id);
  }
}

}  // namespace embedding::bench
