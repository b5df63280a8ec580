// What the candidate pass knows of each row: its length, and whether the pass may judge it at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/search/similarity.h"
#include "server/table/embedding_table.h"
#include "server/table/table_memory.h"

namespace embedding {

// Lengths outside of these bounds could overflow or underflow in float32 beside a query of any allowed length.
constexpr double kMinNorm = 0x1p-60;
constexpr double kMaxNorm = 0x1p60;

struct RowNorms {
  // [num_rows]: |row| within a relative error of 2^-23 where it lies in [kMinNorm, kMaxNorm]; kMinNorm for a row of
  // zeros; NaN for every other row, so that no comparison ever selects it.
  std::vector<float> norms;
  // Finite rows whose norm is NaN above, ascending: they are always scored canonically.
  std::vector<int64_t> unjudged;
  TableMemoryClaim memory;  // of norms
};

// norms[i] = what RowNorms.norms holds for row i of num_rows, unpadded, [num_rows, dim] of type.
void NormsOfRows(ElementType type, const std::byte* rows, int64_t num_rows, int64_t dim, float* norms);

// RowNorms.unjudged of a table whose norms are known.
std::vector<int64_t> UnjudgedRows(const EmbeddingTable& table, const std::vector<float>& norms);

// Reads the table once, in parallel. Not to be called from a worker of the pool. stop, asked between blocks from any
// worker, ends it early: the result then means nothing.
RowNorms ComputeRowNorms(const EmbeddingTable& table, WorkerPool& pool, const StopPredicate& stop = {});

}  // namespace embedding
