#include "client/cli/printer.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/json.h"
#include "client/cli/text.h"

namespace embedding::client {
namespace {

// Numbers of a vector that a person is shown; all of them are in the other formats.
constexpr size_t kShownNumbers = 6;

std::string Preview(std::span<const float> row) {
  std::string text;
  for (size_t i = 0; i < std::min(row.size(), kShownNumbers); ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", Shortest(row[i]));
  }
  return row.size() > kShownNumbers ? text + " ..." : text;
}

std::string VectorTitle(size_t dim) {
  return dim > kShownNumbers ? absl::StrCat("VECTOR (", kShownNumbers, " of ", dim, ")") : "VECTOR";
}

std::string Direction(Metric metric, bool higher_is_closer) {
  return absl::StrCat(MetricName(metric), ", ", higher_is_closer ? "higher" : "lower", " is closer");
}

size_t DimOf(const Tensor& tensor) { return tensor.shape.empty() ? 0 : static_cast<size_t>(tensor.shape.back()); }

void AddNumberTitles(size_t dim, std::vector<std::string>& fields) {
  for (size_t i = 0; i < dim; ++i) fields.push_back(absl::StrCat("x", i));
}

}  // namespace

void PrintLookup(const LookupResult& result, const std::vector<RowName>& names, bool skipped, Output output,
                 std::ostream& out) {
  if (output == Output::kJson) {
    out << ToJson(result) << "\n";
    return;
  }
  const std::vector<float> floats = result.embeddings.ToFloats();
  const size_t dim = DimOf(result.embeddings);
  const bool has_keys = std::any_of(names.begin(), names.end(), [](const RowName& name) { return !name.key.empty(); });
  const bool any_missing = std::any_of(names.begin(), names.end(), [](const RowName& name) { return name.missing; });
  TextTable table({{"ID", Align::kRight}, {"KEY", Align::kLeft}, {VectorTitle(dim), Align::kLeft}});
  if (output == Output::kCsv) {
    std::vector<std::string> titles = {"id", "key"};
    if (any_missing) titles.emplace_back("missing");
    AddNumberTitles(dim, titles);
    WriteCsvLine(titles, out);
  }
  size_t next = 0;  // vector of the result
  for (const RowName& name : names) {
    const bool has_vector = !(name.missing && skipped);
    const std::span<const float> row = std::span<const float>(floats).subspan(next * dim, has_vector ? dim : 0);
    if (has_vector) ++next;
    const std::string id = name.id < 0 ? "" : absl::StrCat(name.id);
    if (output == Output::kJsonl) {
      out << "{\"id\":" << (id.empty() ? "null" : id);
      if (has_keys) out << ",\"key\":" << JsonString(name.key);
      if (name.missing) out << ",\"missing\":true";
      if (has_vector) out << ",\"embedding\":" << JsonFloats(row);
      out << "}\n";
    } else if (output == Output::kCsv) {
      std::vector<std::string> fields = {id, name.key};
      if (any_missing) fields.emplace_back(name.missing ? "true" : "false");
      WriteCsvLine(fields, row, out);
    } else {
      const std::string preview = Preview(row);
      table.AddRow({id, name.key, !name.missing ? preview : has_vector ? "missing: " + preview : "missing"});
    }
  }
  if (output == Output::kTable) table.Write(out);
}

void PrintBags(const LookupResult& result, Output output, std::ostream& out) {
  if (output == Output::kJson) {
    out << ToJson(result) << "\n";
    return;
  }
  const std::vector<float> floats = result.embeddings.ToFloats();
  const size_t dim = DimOf(result.embeddings);
  const size_t bags = result.embeddings.shape.empty() ? 0 : static_cast<size_t>(result.embeddings.shape.front());
  TextTable table({{"BAG", Align::kRight}, {VectorTitle(dim), Align::kLeft}});
  if (output == Output::kCsv) {
    std::vector<std::string> titles = {"bag"};
    AddNumberTitles(dim, titles);
    WriteCsvLine(titles, out);
  }
  for (size_t bag = 0; bag < bags; ++bag) {
    const std::span<const float> row = std::span<const float>(floats).subspan(bag * dim, dim);
    if (output == Output::kJsonl) {
      out << "{\"bag\":" << bag << ",\"embedding\":" << JsonFloats(row) << "}\n";
    } else if (output == Output::kCsv) {
      WriteCsvLine({absl::StrCat(bag)}, row, out);
    } else {
      table.AddRow({absl::StrCat(bag), Preview(row)});
    }
  }
  if (output != Output::kTable) return;
  table.Write(out);
  if (result.missing_positions.empty()) return;
  out << "missing, counted from 0: ";
  for (size_t i = 0; i < result.missing_positions.size(); ++i)
    out << (i > 0 ? ", " : "") << result.missing_positions[i];
  out << "\n";
}

void PrintSimilarity(const SimilarityResult& result, const std::vector<std::string>& left,
                     const std::vector<std::string>& right, Output output, std::ostream& out) {
  if (output == Output::kJson) {
    out << ToJson(result) << "\n";
    return;
  }
  const size_t width = result.shape.size() == 2 ? right.size() : 1;
  TextTable table({{"LEFT", Align::kLeft},
                   {"RIGHT", Align::kLeft},
                   {absl::StrCat("SCORE (", Direction(result.metric, result.higher_is_closer), ")"), Align::kLeft}});
  if (output == Output::kCsv) WriteCsvLine({"left", "right", "score"}, out);
  for (size_t i = 0; i < result.scores.size(); ++i) {
    const std::string& from = left[i / width];
    const std::string& to = right[result.shape.size() == 2 ? i % width : i];
    const float score = result.scores[i];
    if (output == Output::kJsonl) {
      out << "{\"left\":" << JsonString(from) << ",\"right\":" << JsonString(to) << ",\"score\":" << Shortest(score)
          << "}\n";
    } else if (output == Output::kCsv) {
      WriteCsvLine({from, to, Shortest(score)}, out);
    } else {
      table.AddRow({from, to, Shortest(score)});
    }
  }
  if (output == Output::kTable) table.Write(out);
}

namespace {

void PrintNeighboursTable(const NearestNeighbourResult& result, const std::vector<std::string>& queries,
                          std::ostream& out) {
  for (size_t q = 0; q < result.results.size(); ++q) {
    const Neighbours& neighbours = result.results[q];
    const std::vector<float> floats = neighbours.vectors.ToFloats();
    const size_t dim = DimOf(neighbours.vectors);
    if (q > 0) out << "\n";
    out << Printable(queries[q]) << " (" << Direction(result.metric, result.higher_is_closer) << ")\n";
    std::vector<TextTable::Column> columns = {{"RANK", Align::kRight}, {"ID", Align::kRight}, {"SCORE", Align::kLeft}};
    if (!neighbours.keys.empty()) columns.insert(columns.begin() + 2, {"KEY", Align::kLeft});
    if (dim > 0) columns.push_back({VectorTitle(dim), Align::kLeft});
    TextTable table(columns);
    for (size_t i = 0; i < neighbours.ids.size(); ++i) {
      std::vector<std::string> cells = {absl::StrCat(i + 1), absl::StrCat(neighbours.ids[i])};
      if (!neighbours.keys.empty()) cells.push_back(neighbours.keys[i]);
      cells.push_back(Shortest(neighbours.scores[i]));
      if (dim > 0) cells.push_back(Preview(std::span(floats).subspan(i * dim, dim)));
      table.AddRow(std::move(cells));
    }
    table.Write(out);
  }
}

void PrintNeighboursCsv(const NearestNeighbourResult& result, const std::vector<std::string>& queries,
                        std::ostream& out) {
  size_t dim = 0;
  for (const Neighbours& neighbours : result.results) dim = std::max(dim, DimOf(neighbours.vectors));
  std::vector<std::string> titles = {"query", "rank", "id", "key", "score"};
  AddNumberTitles(dim, titles);
  WriteCsvLine(titles, out);
  for (size_t q = 0; q < result.results.size(); ++q) {
    const Neighbours& neighbours = result.results[q];
    const std::vector<float> floats = neighbours.vectors.ToFloats();
    for (size_t i = 0; i < neighbours.ids.size(); ++i) {
      const std::vector<std::string> fields = {queries[q], absl::StrCat(i + 1), absl::StrCat(neighbours.ids[i]),
                                               neighbours.keys.empty() ? "" : neighbours.keys[i],
                                               Shortest(neighbours.scores[i])};
      WriteCsvLine(fields, std::span(floats).subspan(i * dim, dim), out);
    }
  }
}

void PrintNeighboursJsonl(const NearestNeighbourResult& result, const std::vector<std::string>& queries,
                          std::ostream& out) {
  for (size_t q = 0; q < result.results.size(); ++q) {
    const Neighbours& neighbours = result.results[q];
    out << "{\"query\":" << JsonString(queries[q]) << ",\"ids\":[";
    for (size_t i = 0; i < neighbours.ids.size(); ++i) out << (i > 0 ? "," : "") << neighbours.ids[i];
    out << "],\"scores\":" << JsonFloats(neighbours.scores);
    if (!neighbours.keys.empty()) {
      out << ",\"keys\":[";
      for (size_t i = 0; i < neighbours.keys.size(); ++i) out << (i > 0 ? "," : "") << JsonString(neighbours.keys[i]);
      out << "]";
    }
    if (const size_t dim = DimOf(neighbours.vectors); dim > 0) {
      const std::vector<float> floats = neighbours.vectors.ToFloats();
      out << ",\"vectors\":[";
      for (size_t i = 0; i < neighbours.ids.size(); ++i) {
        out << (i > 0 ? "," : "") << JsonFloats(std::span(floats).subspan(i * dim, dim));
      }
      out << "]";
    }
    out << "}\n";
  }
}

// Title and value of each column, in the order of a line.
std::vector<std::pair<const char*, std::string>> TableFields(const TableInfo& table) {
  return {{"name", table.name},
          {"version", absl::StrCat(table.serving_version)},
          {"rows", absl::StrCat(table.rows)},
          {"dim", absl::StrCat(table.dim)},
          {"parameters", absl::StrCat(table.parameters)},
          {"dtype", DtypeName(table.dtype)},
          {"bytes", absl::StrCat(table.bytes)},
          {"metric", MetricName(table.metric)},
          {"keys", table.has_keys ? "yes" : "no"},
          {"format", table.format},
          {"loaded_at", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(table.loaded_at), absl::UTCTimeZone())},
          {"fingerprint", table.fingerprint}};
}

std::vector<std::pair<const char*, std::string>> InfoFields(const ServerInfo& info) {
  const ServerLimits& limits = info.limits;
  return {{"version", info.version},
          {"revision", info.revision},
          {"simd_target", info.simd_target},
          {"uptime", absl::FormatDuration(absl::FromChrono(info.uptime))},
          {"max_ids", absl::StrCat(limits.max_ids)},
          {"max_queries", absl::StrCat(limits.max_queries)},
          {"max_k", absl::StrCat(limits.max_k)},
          {"max_pairs", absl::StrCat(limits.max_pairs)},
          {"max_filter_ids", absl::StrCat(limits.max_filter_ids)},
          {"max_request_bytes", absl::StrCat(limits.max_request_bytes)},
          {"max_response_bytes", absl::StrCat(limits.max_response_bytes)},
          {"max_deadline", absl::FormatDuration(absl::FromChrono(limits.max_deadline))}};
}

Align AlignOf(const std::string& title) {
  const bool is_number =
      title == "version" || title == "rows" || title == "dim" || title == "parameters" || title == "bytes";
  return is_number ? Align::kRight : Align::kLeft;
}

std::string Upper(std::string text) {
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

}  // namespace

void PrintNeighbours(const NearestNeighbourResult& result, const std::vector<std::string>& queries, Output output,
                     std::ostream& out) {
  switch (output) {
    case Output::kTable:
      return PrintNeighboursTable(result, queries, out);
    case Output::kCsv:
      return PrintNeighboursCsv(result, queries, out);
    case Output::kJsonl:
      return PrintNeighboursJsonl(result, queries, out);
    case Output::kJson:
      out << ToJson(result) << "\n";
  }
}

void PrintResolved(const ResolveKeysResult& result, Output output, std::ostream& out) {
  if (output == Output::kJson) {
    out << ToJson(result) << "\n";
    return;
  }
  TextTable table({{"ID", Align::kRight}, {"KEY", Align::kLeft}});
  if (output == Output::kCsv) WriteCsvLine({"id", "key"}, out);
  for (size_t i = 0; i < result.ids.size(); ++i) {
    if (output == Output::kJsonl) {
      out << "{\"id\":" << result.ids[i] << ",\"key\":" << JsonString(result.keys[i]) << "}\n";
    } else if (output == Output::kCsv) {
      WriteCsvLine({absl::StrCat(result.ids[i]), result.keys[i]}, out);
    } else {
      table.AddRow({absl::StrCat(result.ids[i]), result.keys[i]});
    }
  }
  if (output == Output::kTable) table.Write(out);
}

void PrintTables(const std::vector<TableInfo>& tables, Output output, std::ostream& out) {
  if (output == Output::kJson) {
    out << ToJson(tables) << "\n";
    return;
  }
  if (output == Output::kJsonl) {
    for (const TableInfo& info : tables) out << ToJson(info) << "\n";
    return;
  }
  std::vector<TextTable::Column> columns;
  std::vector<std::string> titles;
  for (const auto& [title, value] : TableFields({})) {
    columns.push_back({Upper(title), AlignOf(title)});
    titles.push_back(title);
  }
  TextTable table(columns);
  if (output == Output::kCsv) WriteCsvLine(titles, out);
  for (const TableInfo& info : tables) {
    std::vector<std::string> cells;
    for (const auto& [title, value] : TableFields(info)) cells.push_back(value);
    if (output == Output::kCsv) {
      WriteCsvLine(cells, out);
    } else {
      table.AddRow(std::move(cells));
    }
  }
  if (output != Output::kTable) return;
  table.Write(out);
  // Too long for a column, and most tables have none.
  for (const TableInfo& info : tables) {
    for (const auto& [key, value] : info.metadata) {
      out << Printable(info.name) << " metadata " << Printable(key) << ": " << Printable(value) << "\n";
    }
  }
}

void PrintVersions(const std::vector<TableInfo>& tables, Output output, std::ostream& out) {
  if (output == Output::kJson || output == Output::kJsonl) {
    PrintTables(tables, output, out);
    return;
  }
  TextTable table({{"TABLE", Align::kLeft},
                   {"VERSION", Align::kRight},
                   {"STATE", Align::kLeft},
                   {"SERVES", Align::kLeft},
                   {"REASON", Align::kLeft}});
  if (output == Output::kCsv) WriteCsvLine({"table", "version", "state", "serves", "reason"}, out);
  for (const TableInfo& info : tables) {
    for (const TableVersion& known : info.versions) {
      const bool serves = known.state == TableState::kAvailable && known.version == info.serving_version;
      std::vector<std::string> cells = {info.name, std::to_string(known.version), TableStateName(known.state),
                                        serves ? "yes" : "no", known.reason};
      if (output == Output::kCsv) {
        WriteCsvLine(cells, out);
      } else {
        table.AddRow(std::move(cells));
      }
    }
  }
  if (output == Output::kTable) table.Write(out);
}

void PrintChangedTable(const TableInfo& table, Output output, std::ostream& out) {
  if (output == Output::kJson || output == Output::kJsonl) {
    out << "{\"table\":" << ToJson(table) << "}\n";
  } else {
    PrintVersions({table}, output, out);
  }
}

void PrintInfo(const ServerInfo& info, Output output, std::ostream& out) {
  switch (output) {
    case Output::kJson:
    case Output::kJsonl:
      out << ToJson(info, output == Output::kJson) << "\n";
      return;
    case Output::kCsv:
      WriteCsvLine({"name", "value"}, out);
      for (const auto& [name, value] : InfoFields(info)) WriteCsvLine({name, value}, out);
      return;
    case Output::kTable:
      TextTable table({{"NAME", Align::kLeft}, {"VALUE", Align::kLeft}});
      for (const auto& [name, value] : InfoFields(info)) table.AddRow({name, value});
      table.Write(out);
  }
}

void PrintHealth(const std::string& status, Output output, std::ostream& out) {
  switch (output) {
    case Output::kJson:
    case Output::kJsonl:
      out << "{\"status\":" << JsonString(status) << "}\n";
      return;
    case Output::kCsv:
      WriteCsvLine({"status"}, out);
      WriteCsvLine({status}, out);
      return;
    case Output::kTable:
      out << status << "\n";
  }
}

}  // namespace embedding::client
