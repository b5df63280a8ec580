#include "server/table/table_source.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTableEndings[] = {".safetensors", ".npy",   ".fbin", ".f16bin", ".u8bin", ".i8bin",
                                         ".fvecs",       ".bvecs", ".bin",  ".vec",    ".raw",   ".txt"};
constexpr char kSetEnding[] = ".index.json";
// Files that a message lists at most.
constexpr size_t kListedFiles = 4;

// Whether the name is the number of a version, however large.
bool IsNumber(const std::string& name) {
  return !name.empty() && name[0] != '0' && std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

bool IsVocabulary(const std::string& name) {
  return name == "vocab.txt" || name == "vocab.json" || name == "tokenizer.json" ||
         absl::EndsWith(name, ".vocab.txt") || absl::EndsWith(name, ".vocab.json");
}

bool IsTable(const std::string& name) {
  return absl::EndsWith(name, kSetEnding) ||
         std::any_of(std::begin(kTableEndings), std::end(kTableEndings),
                     [&](const char* ending) { return absl::EndsWithIgnoreCase(name, ending); });
}

// The names in a folder that are themselves a folder, or a file where files are wanted. Links are followed where they
// may be.
absl::StatusOr<std::vector<std::string>> Names(const std::string& folder, bool files, const LinkPredicate& may_follow) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (may_follow != nullptr && it->is_symlink(gone) && !may_follow(it->path().string())) continue;
    if (files ? it->is_regular_file(gone) : it->is_directory(gone)) names.push_back(it->path().filename().string());
  }
  if (error) return WithPath(folder, absl::DataLossError(error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

std::string List(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kListedFiles));
  return absl::StrCat(
      absl::StrJoin(first, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, Quoted(name)); }),
      names.size() > kListedFiles ? absl::StrCat(" and ", names.size() - kListedFiles, " more") : "");
}

absl::StatusOr<TableSource> FindInVersion(TableOptions options, uint64_t version, const LinkPredicate& may_follow) {
  absl::StatusOr<std::vector<std::string>> names = Names(options.path, /*files=*/true, may_follow);
  if (!names.ok()) return names.status();
  std::vector<std::string> tables, vocabularies;
  for (const std::string& name : *names) {
    if (name[0] == '.' || name[0] == '_') continue;
    if (IsVocabulary(name) || name == options.vocab) {
      if (options.vocab.empty()) vocabularies.push_back(name);
    } else if (IsTable(name)) {
      tables.push_back(name);
    }
  }
  if (std::any_of(tables.begin(), tables.end(), [](const auto& name) { return absl::EndsWith(name, kSetEnding); })) {
    std::erase_if(tables, [](const std::string& name) { return absl::EndsWith(name, ".safetensors"); });
  }
  if (tables.size() != 1) {
    const std::string found =
        tables.empty() ? "none that ends as one" : absl::StrCat(tables.size(), ": ", List(tables));
    return WithPath(options.path,
                    absl::DataLossError(absl::StrCat("a version's folder must hold one table, found ", found)));
  }
  if (vocabularies.size() > 1) {
    return WithPath(options.path, absl::DataLossError(absl::StrCat("a version's folder may hold one vocabulary, found ",
                                                                   vocabularies.size(), ": ", List(vocabularies),
                                                                   "; say which with vocab=")));
  }
  if (vocabularies.size() == 1) options.vocab = vocabularies[0];
  options.path = absl::StrCat(options.path, "/", tables[0]);
  return TableSource{std::move(options), version};
}

}  // namespace

absl::StatusOr<TableSource> FindTableSource(const TableOptions& options, const LinkPredicate& may_follow) {
  std::error_code error;
  if (!fs::is_directory(options.path, error)) return TableSource{options, 0};
  absl::StatusOr<std::vector<std::string>> names = Names(options.path, /*files=*/false, may_follow);
  if (!names.ok()) return names.status();
  uint64_t highest = 0;
  for (const std::string& name : *names) {
    if (!IsNumber(name)) continue;
    uint64_t version = 0;
    if (!absl::SimpleAtoi(name, &version) || version > uint64_t{INT64_MAX}) {
      return WithPath(options.path, absl::DataLossError(absl::StrCat("holds the folder ", Quoted(name, 40),
                                                                     ", versions go up to ", INT64_MAX)));
    }
    highest = std::max(highest, version);
  }
  if (highest == 0) {
    return WithPath(options.path, absl::DataLossError("is a folder without a version: it must hold folders whose names "
                                                      "are numbers, such as 1, each with one table"));
  }
  TableOptions in_version = options;
  while (in_version.path.size() > 1 && in_version.path.back() == '/') in_version.path.pop_back();
  absl::StrAppend(&in_version.path, "/", highest);
  return FindInVersion(std::move(in_version), highest, may_follow);
}

}  // namespace embedding
