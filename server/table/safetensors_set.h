// Sets of safetensors files: an index `NAME.index.json` beside them says which file holds which tensor
// (https://huggingface.co/docs/huggingface_hub, "Serialization", and transformers' sharded checkpoints). One table
// never spans two files.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/row_layout.h"
#include "server/table/safetensors.h"
#include "server/table/source_file.h"
#include "server/table/table_options.h"

namespace embedding {

inline constexpr uint64_t kMaxSafetensorsIndexBytes = kMaxSafetensorsHeaderBytes;
inline constexpr size_t kMaxSafetensorsShards = 10'000;

// "weight_map": the file that holds each tensor.
using WeightMap = std::map<std::string, std::string>;

// json: the whole index. File names must be plain ones, of the index's own folder: 1 to 255 bytes without '/', control
// characters, and neither "." nor "..". Other fields ("metadata" with "total_size") are not trusted and not looked at.
// DATA_LOSS: no JSON, a key that appears twice, no weight_map or an empty one, a value that is no such name, too many
// files.
absl::StatusOr<WeightMap> ParseSafetensorsIndex(std::string json);

// One file of a set, opened, with the table in it.
struct ShardTable {
  SourceFile file;
  std::string path;
  RowLayout layout;
  SafetensorsMetadata metadata;
};

// The table of a set: the tensor of that name, or, if it is empty, the only 2-D float one of all files that the index
// names. Only headers are read, and of other files only while the table has no name. index_path: the folder is looked
// up once; files in it are opened without following symbolic links, since their names come from a file. DATA_LOSS names
// the file: it cannot be opened, its header is refused, or it lacks a tensor that the index says it holds; else as
// FindTable. What a file holds beyond the index is not looked at.
absl::StatusOr<ShardTable> FindTableInSet(const std::string& index_path, const WeightMap& weight_map,
                                          absl::string_view tensor, const TableLimits& limits);

}  // namespace embedding
