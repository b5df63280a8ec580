// What stands behind the path of a table: a file, or a folder of numbered versions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/table/table_options.h"

namespace embedding {

struct TableSource {
  // Names the file to load: path, and vocab where the version's folder holds one and the options name none.
  TableOptions options;
  // The number of the version's folder; 0: the path is a file, which bears no number.
  uint64_t version = 0;
};

// Whether a link in a folder may be followed. One that may not is left alone as if it were not there.
using LinkPredicate = std::function<bool(const std::string& path)>;

// Looks behind options.path now. Anything but a folder is given back as it is. may_follow: null follows every link.
//
// In a folder, a version is a folder whose name is a number from 1 to 2^63 - 1 in plain digits, without leading zeros;
// the highest is taken. All else in it is left alone, so a version may be written under another name and renamed when
// it is whole. In a version's folder these count, and names that begin with "." or "_" never do:
// - the table: the one file that ends in .safetensors, .npy, .fbin, .f16bin, .u8bin, .i8bin, .fvecs, .bvecs, .bin,
//   .vec, .raw or .txt, and is no vocabulary; where there is a *.index.json, that one, and .safetensors files beside it
//   are its parts;
// - the vocabulary, at most one: vocab.txt, vocab.json, tokenizer.json, *.vocab.txt or *.vocab.json. Where vocab= is
//   given, that name in the version's folder instead.
// DATA_LOSS, with the path: a folder without a version, or a version without a table, with several, or with several
// vocabularies.
absl::StatusOr<TableSource> FindTableSource(const TableOptions& options, const LinkPredicate& may_follow = nullptr);

}  // namespace embedding
