// word2vec binary files, as written by the C program (https://code.google.com/archive/p/word2vec, word2vec.c), by
// gensim's save_word2vec_format(binary=True) and by their kin: a line "V d\n" of two numbers in ASCII, then V times a
// key, a space and d float32, little-endian. The C program ends each row with \n, others do not: one \n before a key is
// skipped, and nothing else, since the bytes of a float may look like white space.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/keyed_rows.h"
#include "server/table/load_table.h"
#include "server/table/source_file.h"
#include "server/table/table_options.h"

namespace embedding {

struct Word2vecHeader {
  uint64_t num_rows = 0;
  uint64_t dim = 0;
};

// The two integers of a first line, given without its \n; nullopt for any other line. Blanks and one \r at its end are
// for text files only: is_text.
std::optional<Word2vecHeader> ParseWord2vecHeader(absl::string_view line, bool is_text);

// Reads the whole file, front to back: where a row begins is known only when the one before has ended. Rows are not
// looked at beyond their place.
// DATA_LOSS: the first line is no header, V or d is over the limits, the file is too short for V rows or has bytes left
// after them, a key is empty, longer than 65,536 bytes, not UTF-8 or holds a NUL (the last three pass without becoming
// keys under policy.skip_invalid; the message names the row, counted from 0, and its byte), a read error.
// RESOURCE_EXHAUSTED: no memory for the rows.
absl::StatusOr<KeyedRows> ReadWord2vec(const SourceFile& file, const TableLimits& limits, KeyPolicy policy,
                                       const LoadProgress& progress);

}  // namespace embedding
