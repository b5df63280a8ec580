#include "client/cli/inspect.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/text.h"
#include "server/table/load_table.h"
#include "server/table/safetensors.h"
#include "server/table/source_file.h"

namespace embedding::cli {
namespace {

using client::JsonString;

constexpr size_t kMaxListedRows = 100;

std::string FirstRows(const std::vector<int64_t>& rows, size_t most) {
  const size_t shown = std::min(rows.size(), most);
  return absl::StrCat(absl::StrJoin(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                      shown < rows.size() ? ", ..." : "");
}

std::string KeysText(const TableFacts& facts) {
  if (!facts.has_keys) return "none";
  if (facts.rows_without_key == 0) return "one for each row";
  return absl::StrCat(facts.rows - facts.rows_without_key, ", ", facts.rows_without_key, " rows without");
}

}  // namespace

std::vector<TensorFacts> TensorsOf(const std::string& path) {
  const absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  if (!file.ok()) return {};
  absl::StatusOr<SafetensorsContent> content = ReadSafetensorsHeader(*file);
  if (!content.ok()) return {};
  std::vector<TensorFacts> facts;
  for (SafetensorsTensor& tensor : content->tensors) {
    facts.push_back({std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape)});
  }
  return facts;
}

absl::StatusOr<TableFacts> Inspect(const TableOptions& options, WorkerPool& pool) {
  TableOptions lenient = options;
  lenient.allow_non_finite = true;
  const absl::StatusOr<std::unique_ptr<EmbeddingTable>> loaded = LoadTable(lenient, TableLimits(), pool);
  if (!loaded.ok()) return loaded.status();
  const EmbeddingTable& table = **loaded;
  TableFacts facts;
  facts.path = options.path;
  facts.format = std::string(TableFormatName(table.format()));
  facts.rows = table.num_rows();
  facts.dim = table.dim();
  facts.dtype = std::string(DtypeName(table.dtype()));
  facts.source_dtype = std::string(DtypeName(table.source_dtype()));
  facts.bytes = table.size_bytes();
  facts.has_keys = table.vocabulary() != nullptr;
  if (facts.has_keys) facts.rows_without_key = table.vocabulary()->rows_without_key();
  facts.zero_rows = table.zero_rows();
  facts.non_finite_rows = table.non_finite_rows();
  facts.fingerprint = table.fingerprint();
  facts.metadata = table.metadata();
  facts.metadata_bytes_left_out = table.metadata_bytes_left_out();
  if (table.format() == TableFormat::kSafetensors) facts.tensors = TensorsOf(options.path);
  if (!facts.non_finite_rows.empty() && !options.allow_non_finite) {
    facts.refusal =
        absl::StrCat(facts.non_finite_rows.size(), " rows hold NaN or infinity, the first is row ",
                     facts.non_finite_rows.front(), "; a server refuses the table unless allow-non-finite=true");
  }
  return facts;
}

std::string TensorsText(const std::vector<TensorFacts>& tensors) {
  client::TextTable table({{"TENSOR"}, {"DTYPE"}, {"SHAPE"}});
  for (const TensorFacts& tensor : tensors) {
    table.AddRow({tensor.name, tensor.dtype, absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]")});
  }
  std::ostringstream text;
  table.Write(text);
  return text.str();
}

std::string FactsText(const TableFacts& facts) {
  client::TextTable table({{"NAME"}, {"VALUE"}});
  table.AddRow({"path", facts.path});
  table.AddRow({"format", facts.format});
  table.AddRow({"shape", absl::StrCat("[", facts.rows, ", ", facts.dim, "]")});
  table.AddRow({"dtype", facts.dtype == facts.source_dtype
                             ? facts.dtype
                             : absl::StrCat(facts.dtype, " (", facts.source_dtype, " in the file)")});
  table.AddRow({"bytes in memory", absl::StrCat(facts.bytes)});
  table.AddRow({"keys", KeysText(facts)});
  table.AddRow({"zero rows", absl::StrCat(facts.zero_rows)});
  table.AddRow({"non-finite rows", facts.non_finite_rows.empty() ? "0"
                                                                 : absl::StrCat(facts.non_finite_rows.size(), ": ",
                                                                                FirstRows(facts.non_finite_rows, 10))});
  table.AddRow({"fingerprint", facts.fingerprint});
  table.AddRow({"a server", facts.refusal.empty() ? "loads it" : absl::StrCat("refuses it: ", facts.refusal)});
  for (const auto& [name, value] : facts.metadata) table.AddRow({absl::StrCat("metadata ", name), value});
  if (facts.metadata_bytes_left_out > 0) {
    table.AddRow({"metadata", absl::StrCat("left out: ", facts.metadata_bytes_left_out, " bytes")});
  }
  std::ostringstream text;
  table.Write(text);
  return facts.tensors.empty() ? text.str() : absl::StrCat(text.str(), "\n", TensorsText(facts.tensors));
}

std::string FactsJson(const TableFacts& facts) {
  const size_t listed = std::min(facts.non_finite_rows.size(), kMaxListedRows);
  std::string tensors = absl::StrJoin(facts.tensors, ",", [](std::string* out, const TensorFacts& tensor) {
    absl::StrAppend(out, "{\"name\":", JsonString(tensor.name), ",\"dtype\":", JsonString(tensor.dtype), ",\"shape\":[",
                    absl::StrJoin(tensor.shape, ","), "]}");
  });
  const std::string metadata = absl::StrJoin(facts.metadata, ",", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, JsonString(entry.first), ":", JsonString(entry.second));
  });
  return absl::StrCat("{\"path\":", JsonString(facts.path), ",\"format\":", JsonString(facts.format),
                      ",\"rows\":", facts.rows, ",\"dim\":", facts.dim, ",\"dtype\":", JsonString(facts.dtype),
                      ",\"source_dtype\":", JsonString(facts.source_dtype), ",\"bytes\":", facts.bytes,
                      ",\"has_keys\":", facts.has_keys ? "true" : "false",
                      ",\"rows_without_key\":", facts.rows_without_key, ",\"zero_rows\":", facts.zero_rows,
                      ",\"non_finite_rows\":", facts.non_finite_rows.size(), ",\"first_non_finite_rows\":[",
                      absl::StrJoin(facts.non_finite_rows.begin(),
                                    facts.non_finite_rows.begin() + static_cast<std::ptrdiff_t>(listed), ","),
                      "],\"fingerprint\":", JsonString(facts.fingerprint),
                      ",\"server_loads_it\":", facts.refusal.empty() ? "true" : "false",
                      ",\"refusal\":", JsonString(facts.refusal), ",\"metadata\":{", metadata, "},\"tensors\":[",
                      tensors, "]}");
}

}  // namespace embedding::cli
