// Text files of vectors, one row a line: GloVe's (https://nlp.stanford.edu/projects/glove, key and numbers, no header)
// and word2vec's (the same below a line "V d"; fastText's .vec is one). text_row.h says how a line is read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/table/keyed_rows.h"
#include "server/table/load_table.h"
#include "server/table/source_file.h"
#include "server/table/table_options.h"

namespace embedding {

struct TextRowsOptions {
  bool has_header = false;  // word2vec text
  TableLimits limits = {};
  KeyPolicy keys = {};
  bool allow_non_finite = false;
  // Each thread holds one chunk of the file at a time, and the line that leaves it.
  uint64_t chunk_bytes = uint64_t{4} << 20;
};

// Reads the file on all threads of the pool (not from one of its workers), twice: first lines are counted, so that each
// chunk knows its rows and memory is taken once, then they are parsed.
// DATA_LOSS: a byte order mark; a first line that is no header, or that tells no width; V or d over the limits; a count
// of lines other than V; a line that does not fit (`line 7, field 3 "abc" is not a number`; lines count from 1, the key
// is field 1), is longer than 16 MiB, or has a key that is empty, longer than 65,536 bytes, not UTF-8 or holds a NUL
// (under keys.skip_invalid such a row has no key, but for the long one); keys that are all decimal fractions, as in a
// file without keys; a read error. RESOURCE_EXHAUSTED: no memory for the rows.
absl::StatusOr<KeyedRows> ReadTextRows(const SourceFile& file, const TextRowsOptions& options, WorkerPool& pool,
                                       const LoadProgress& progress);

}  // namespace embedding
