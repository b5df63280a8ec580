// What a server would load: the answer of `inspect`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/table/embedding_table.h"
#include "server/table/table_options.h"

namespace embedding::cli {

struct TensorFacts {
  std::string name;
  std::string dtype;  // as written
  std::vector<uint64_t> shape;
};

struct TableFacts {
  std::string path;
  std::string format;
  int64_t rows = 0;
  int64_t dim = 0;
  std::string dtype;         // in memory
  std::string source_dtype;  // in the file
  int64_t bytes = 0;         // of the rows in memory
  bool has_keys = false;
  int64_t rows_without_key = 0;
  int64_t zero_rows = 0;
  std::vector<int64_t> non_finite_rows;
  std::string fingerprint;
  std::map<std::string, std::string> metadata;  // of a safetensors file
  int64_t metadata_bytes_left_out = 0;          // of metadata that was longer than a table keeps
  std::vector<TensorFacts> tensors;             // of one safetensors file, not of a set, in the order of their bytes
  // Why a server with the same options would not load it: rows that are not finite. Empty: it would.
  std::string refusal;
};

// Loads the table as a server does, but with rows that are not finite. Errors are LoadTable's.
absl::StatusOr<TableFacts> Inspect(const TableOptions& options, WorkerPool& pool);

// The tensors of a safetensors file; none if it is no such file or its header is broken.
std::vector<TensorFacts> TensorsOf(const std::string& path);

// Lines for people: a name and a value each, then the tensors.
std::string FactsText(const TableFacts& facts);
std::string TensorsText(const std::vector<TensorFacts>& tensors);
// One JSON document on one line. int64 are numbers; non_finite_rows is cut after 100, with their count beside it.
std::string FactsJson(const TableFacts& facts);

}  // namespace embedding::cli
