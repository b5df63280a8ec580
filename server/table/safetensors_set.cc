#include "server/table/safetensors_set.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/table/json.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;
namespace dom = simdjson::dom;

// {"weight_map": {name: file}} has two levels; unknown fields may bring more.
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxNameBytes = 255;  // NAME_MAX
constexpr size_t kMaxListed = 10;

bool IsPlainName(string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name == "." || name == "..") return false;
  for (const unsigned char byte : name) {
    if (byte == '/' || byte < 0x20 || byte == 0x7F) return false;
  }
  return true;
}

struct Shard {
  SourceFile file;
  std::string path;
  SafetensorsContent content;
};

// Opens a shard and reads its header. The tensors that the index puts there must be there.
absl::StatusOr<Shard> OpenShard(const SourceFolder& folder, const std::string& name,
                                const std::vector<string_view>& tensors) {
  const std::string path = absl::StrCat(folder.path(), name);
  absl::StatusOr<SourceFile> file = folder.Open(name);
  if (!file.ok()) return WithPath(path, file.status());
  absl::StatusOr<SafetensorsContent> content = ReadSafetensorsHeader(*file);
  if (!content.ok()) return WithPath(path, content.status());
  std::set<string_view> present;
  for (const SafetensorsTensor& tensor : content->tensors) present.insert(tensor.name);
  for (const string_view tensor : tensors) {
    if (present.count(tensor) > 0) continue;
    return WithPath(path, absl::DataLossError(
                              absl::StrCat("file has no tensor ", Quoted(tensor), ", which the index says is in it")));
  }
  return Shard{*std::move(file), path, *std::move(content)};
}

absl::Status UnknownTensor(string_view tensor, const WeightMap& weight_map) {
  std::string list;
  size_t listed = 0;
  for (const auto& [name, file] : weight_map) {
    if (listed++ == kMaxListed) break;
    absl::StrAppend(&list, listed == 1 ? "" : ", ", Quoted(name, 80));
  }
  if (weight_map.size() > kMaxListed) absl::StrAppend(&list, " and ", weight_map.size() - kMaxListed, " more");
  return absl::DataLossError(absl::StrCat("the index has no tensor ", Quoted(tensor), ", it has ", list));
}

absl::StatusOr<ShardTable> TableOf(Shard shard, const SafetensorsTensor& tensor, const TableLimits& limits) {
  absl::StatusOr<RowLayout> layout = TableLayout(tensor, limits);
  if (!layout.ok()) return WithPath(shard.path, layout.status());
  return ShardTable{std::move(shard.file), std::move(shard.path), *layout, std::move(shard.content.metadata)};
}

}  // namespace

absl::StatusOr<WeightMap> ParseSafetensorsIndex(std::string json) {
  const auto refused = [](string_view what) { return absl::DataLossError(absl::StrCat("safetensors index ", what)); };
  dom::parser parser;
  dom::element root;
  if (absl::Status status = ParseJson(&json, kMaxDepth, &parser, &root); !status.ok()) return refused(status.message());
  if (const std::optional<std::string_view> twice = DuplicateKey(root)) {
    return refused(absl::StrCat("holds the key ", Quoted(View(*twice)), " twice"));
  }
  const std::optional<dom::object> object = As<dom::object>(root);
  dom::element field;
  if (!object.has_value() || object->at_key("weight_map").get(field) != simdjson::SUCCESS) {
    return refused("has no weight_map, which says in which file each tensor is");
  }
  const std::optional<dom::object> entries = As<dom::object>(field);
  if (!entries.has_value()) return refused(absl::StrCat("has weight_map ", ValueText(field), ", wanted an object"));

  WeightMap weight_map;
  std::set<std::string_view> files;
  for (const dom::key_value_pair entry : *entries) {
    const std::optional<std::string_view> file = As<std::string_view>(entry.value);
    if (!file.has_value() || !IsPlainName(View(*file))) {
      return refused(absl::StrCat("puts tensor ", Quoted(View(entry.key), 80), " into ", ValueText(entry.value),
                                  ", wanted the plain name of a file beside the index"));
    }
    files.insert(*file);
    weight_map.emplace(entry.key, *file);
  }
  if (weight_map.empty()) return refused("has an empty weight_map");
  if (files.size() > kMaxSafetensorsShards) {
    return refused(absl::StrCat("names ", files.size(), " files, the limit is ", kMaxSafetensorsShards));
  }
  return weight_map;
}

absl::StatusOr<ShardTable> FindTableInSet(const std::string& index_path, const WeightMap& weight_map,
                                          string_view tensor, const TableLimits& limits) {
  absl::StatusOr<SourceFolder> folder = SourceFolder::OfFile(index_path);
  if (!folder.ok()) return WithPath(index_path, folder.status());
  if (!tensor.empty()) {
    const auto entry = weight_map.find(std::string(tensor));
    if (entry == weight_map.end()) return WithPath(index_path, UnknownTensor(tensor, weight_map));
    absl::StatusOr<Shard> shard = OpenShard(*folder, entry->second, {tensor});
    if (!shard.ok()) return shard.status();
    const absl::StatusOr<size_t> found = FindTable(shard->content.tensors, tensor);
    if (!found.ok()) return WithPath(shard->path, found.status());
    const SafetensorsTensor table = shard->content.tensors[*found];
    return TableOf(*std::move(shard), table, limits);
  }

  std::map<string_view, std::vector<string_view>> tensors_by_file;
  for (const auto& [name, file] : weight_map) tensors_by_file[file].push_back(name);
  // Only the files that may hold the table stay open, so that what is judged here is what is read.
  std::vector<SafetensorsTensor> tensors;
  std::vector<size_t> shard_of;
  std::vector<Shard> shards;
  int shards_with_floats = 0;
  int shards_with_bytes = 0;
  for (const auto& [file, names] : tensors_by_file) {
    absl::StatusOr<Shard> shard = OpenShard(*folder, std::string(file), names);
    if (!shard.ok()) return shard.status();
    bool has_floats = false;
    bool has_bytes = false;
    for (const SafetensorsTensor& candidate : shard->content.tensors) {
      const auto entry = weight_map.find(candidate.name);
      if (entry == weight_map.end() || entry->second != file) continue;
      if (MayBeTable(candidate)) (IsOfBytes(candidate) ? has_bytes : has_floats) = true;
      tensors.push_back(candidate);
      shard_of.push_back(shards.size());
    }
    // From the second file with candidates of a kind on, none of that kind is the only one.
    const bool may_hold_table = (has_floats && shards_with_floats < 2) || (has_bytes && shards_with_bytes < 2);
    shards_with_floats += has_floats ? 1 : 0;
    shards_with_bytes += has_bytes ? 1 : 0;
    if (may_hold_table) shards.push_back(*std::move(shard));
  }
  const absl::StatusOr<size_t> found = FindTable(tensors, "");
  if (!found.ok()) return WithPath(index_path, found.status());
  return TableOf(std::move(shards[shard_of[*found]]), tensors[*found], limits);
}

}  // namespace embedding
