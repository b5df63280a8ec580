#include "server/table/table_options.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;

constexpr size_t kMaxNameBytes = 64;

// What format= may name.
constexpr TableFormat kFormats[] = {TableFormat::kSafetensors,  TableFormat::kNpy,   TableFormat::kFbin,
                                    TableFormat::kF16bin,       TableFormat::kU8bin, TableFormat::kI8bin,
                                    TableFormat::kFvecs,        TableFormat::kBvecs, TableFormat::kWord2vec,
                                    TableFormat::kWord2vecText, TableFormat::kGlove, TableFormat::kRaw};

absl::Status Refused(string_view what) { return absl::InvalidArgumentError(what); }

absl::Status NotAllowed(string_view key, string_view value, string_view allowed) {
  return Refused(absl::StrCat("table option ", key, "=", EscapedText(value), ": allowed are ", allowed));
}

absl::Status SetTensor(string_view value, TableOptions* options) {
  options->tensor = std::string(value);
  return absl::OkStatus();
}

absl::Status SetFormat(string_view value, TableOptions* options) {
  for (const TableFormat format : kFormats) {
    if (value != TableFormatName(format)) continue;
    options->format = format;
    return absl::OkStatus();
  }
  return NotAllowed("format", value, absl::StrJoin(kFormats, ", ", [](std::string* out, TableFormat format) {
                      absl::StrAppend(out, TableFormatName(format));
                    }));
}

absl::Status SetDtype(string_view value, TableOptions* options) {
  options->dtype = DtypeFromName(value);
  return options->dtype.has_value() ? absl::OkStatus() : NotAllowed("dtype", value, kDtypeNames);
}

// A whole number of [least, most].
absl::Status SetNumber(string_view key, string_view value, int least, int most, int* to) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *to);
  if (error == std::errc() && end == value.data() + value.size() && *to >= least && *to <= most) {
    return absl::OkStatus();
  }
  return NotAllowed(key, value, absl::StrCat("integers from ", least, " to ", most));
}

absl::Status SetIndex(string_view value, TableOptions* options) {
  if (value != "hnsw") return NotAllowed("index", value, "hnsw");
  options->hnsw = true;
  return absl::OkStatus();
}

absl::Status SetHnswM(string_view value, TableOptions* options) {
  return SetNumber("hnsw-m", value, kMinHnswM, kMaxHnswM, &options->hnsw_m);
}

absl::Status SetHnswEfConstruction(string_view value, TableOptions* options) {
  return SetNumber("hnsw-ef-construction", value, 1, kMaxHnswEfConstruction, &options->hnsw_ef_construction);
}

absl::Status SetDim(string_view value, TableOptions* options) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options->dim);
  if (error != std::errc() || end != value.data() + value.size() || options->dim < 1) {
    return NotAllowed("dim", value, "integers from 1");
  }
  return absl::OkStatus();
}

absl::Status SetVocab(string_view value, TableOptions* options) {
  options->vocab = std::string(value);
  return absl::OkStatus();
}

absl::Status SetInvalidKeys(string_view value, TableOptions* options) {
  if (value != "refuse" && value != "skip") return NotAllowed("invalid-keys", value, "refuse, skip");
  options->keys.skip_invalid = value == "skip";
  return absl::OkStatus();
}

absl::Status SetDuplicateKeys(string_view value, TableOptions* options) {
  if (value != "refuse" && value != "first") return NotAllowed("duplicate-keys", value, "refuse, first");
  options->keys.first_keeps = value == "first";
  return absl::OkStatus();
}

absl::Status SetMetric(string_view value, TableOptions* options) {
  if (value == "cosine") {
    options->metric = TableMetric::kCosine;
  } else if (value == "dot") {
    options->metric = TableMetric::kDot;
  } else if (value == "euclidean") {
    options->metric = TableMetric::kEuclidean;
  } else {
    return NotAllowed("metric", value, "cosine, dot, euclidean");
  }
  return absl::OkStatus();
}

absl::Status SetCodes(string_view value, TableOptions* options) {
  if (value == "auto") {
    options->codes = CodesOption::kAuto;
  } else if (value == "on") {
    options->codes = CodesOption::kOn;
  } else if (value == "off") {
    options->codes = CodesOption::kOff;
  } else {
    return NotAllowed("codes", value, "auto, on, off");
  }
  return absl::OkStatus();
}

absl::Status SetDefaultRow(string_view value, TableOptions* options) {
  if (value.empty()) return NotAllowed("default-row", value, "a row id from 0, or a key of the table");
  options->default_row = std::string(value);
  return absl::OkStatus();
}

absl::Status SetAllowNonFinite(string_view value, TableOptions* options) {
  if (value != "true" && value != "false") return NotAllowed("allow-non-finite", value, "true, false");
  options->allow_non_finite = value == "true";
  return absl::OkStatus();
}

absl::Status SetAllowDimChange(string_view value, TableOptions* options) {
  if (value != "true" && value != "false") return NotAllowed("allow-dim-change", value, "true, false");
  options->allow_dim_change = value == "true";
  return absl::OkStatus();
}

struct Option {
  const char* key;
  absl::Status (*set)(string_view value, TableOptions* options);
};

constexpr Option kOptions[] = {
    {"tensor", SetTensor},
    {"format", SetFormat},
    {"dtype", SetDtype},
    {"dim", SetDim},
    {"vocab", SetVocab},
    {"invalid-keys", SetInvalidKeys},
    {"duplicate-keys", SetDuplicateKeys},
    {"metric", SetMetric},
    {"codes", SetCodes},
    {"index", SetIndex},
    {"hnsw-m", SetHnswM},
    {"hnsw-ef-construction", SetHnswEfConstruction},
    {"allow-non-finite", SetAllowNonFinite},
    {"default-row", SetDefaultRow},
    {"allow-dim-change", SetAllowDimChange},
};

// Levenshtein's distance.
size_t EditDistance(string_view a, string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

absl::Status UnknownOption(string_view key) {
  const string_view compared = key.substr(0, 64);
  const Option* nearest = std::min_element(
      std::begin(kOptions), std::end(kOptions),
      [&](const Option& a, const Option& b) { return EditDistance(compared, a.key) < EditDistance(compared, b.key); });
  const bool is_near = EditDistance(compared, nearest->key) <= 3;
  const std::string list =
      absl::StrJoin(kOptions, ", ", [](std::string* out, const Option& option) { absl::StrAppend(out, option.key); });
  return Refused(absl::StrCat("unknown table option ", Quoted(key),
                              is_near ? absl::StrCat(", did you mean ", nearest->key, "?") : "", " Options are ",
                              list));
}

// Whether the options fit each other, as far as the file need not be known.
absl::Status CheckTogether(const TableOptions& options) {
  const bool may_be_raw = options.format == TableFormat::kAuto || options.format == TableFormat::kRaw;
  const bool may_be_safetensors = options.format == TableFormat::kAuto || options.format == TableFormat::kSafetensors;
  const string_view format = TableFormatName(options.format);
  if (options.dtype.has_value() && !may_be_raw) {
    return Refused(
        absl::StrCat("table option dtype= is for format=raw, not ", format, ", whose files name their dtype"));
  }
  if (options.dim != 0 && !may_be_raw) {
    return Refused(absl::StrCat("table option dim= is for format=raw, not ", format, ", whose files name their width"));
  }
  if (!options.tensor.empty() && !may_be_safetensors) {
    return Refused(
        absl::StrCat("table option tensor= is for format=safetensors, not ", format, ", which holds one table"));
  }
  if (!options.vocab.empty() && HoldsKeys(options.format)) {
    return Refused(absl::StrCat("table option vocab= is not for format=", format, ", whose files hold their keys"));
  }
  if (options.format == TableFormat::kRaw && !options.dtype.has_value()) {
    return Refused(absl::StrCat("table option format=raw needs dtype=, one of ", kDtypeNames));
  }
  if (options.format == TableFormat::kRaw && options.dim == 0) {
    return Refused("table option format=raw needs dim=, the width of a row in elements");
  }
  return absl::OkStatus();
}

}  // namespace

string_view TableFormatName(TableFormat format) {
  switch (format) {
    case TableFormat::kAuto:
      return "auto";
    case TableFormat::kSafetensors:
      return "safetensors";
    case TableFormat::kNpy:
      return "npy";
    case TableFormat::kFbin:
      return "fbin";
    case TableFormat::kF16bin:
      return "f16bin";
    case TableFormat::kU8bin:
      return "u8bin";
    case TableFormat::kI8bin:
      return "i8bin";
    case TableFormat::kFvecs:
      return "fvecs";
    case TableFormat::kBvecs:
      return "bvecs";
    case TableFormat::kWord2vec:
      return "word2vec";
    case TableFormat::kWord2vecText:
      return "word2vec-text";
    case TableFormat::kGlove:
      return "glove";
    case TableFormat::kRaw:
      return "raw";
  }
  return "";
}

bool HoldsKeys(TableFormat format) {
  return format == TableFormat::kWord2vec || format == TableFormat::kWord2vecText || format == TableFormat::kGlove;
}

bool IsTableName(string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  });
}

absl::StatusOr<TableOptions> ParseTableOptions(string_view text) {
  const std::vector<string_view> parts = absl::StrSplit(text, ',');
  const size_t equals = parts[0].find('=');
  if (equals == string_view::npos) {
    return Refused(absl::StrCat("table ", Quoted(text), " is not NAME=PATH[,key=value...]"));
  }
  std::vector<std::pair<std::string, std::string>> given;
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    if (at == string_view::npos) return Refused(absl::StrCat("table option ", Quoted(parts[i]), " is not key=value"));
    given.emplace_back(parts[i].substr(0, at), parts[i].substr(at + 1));
  }
  return MakeTableOptions(parts[0].substr(0, equals), parts[0].substr(equals + 1), given);
}

absl::StatusOr<TableOptions> MakeTableOptions(string_view name, string_view path,
                                              const std::vector<std::pair<std::string, std::string>>& given) {
  TableOptions options;
  options.name = std::string(name);
  options.path = std::string(path);
  options.given = given;
  if (!IsTableName(options.name)) {
    return Refused(
        absl::StrCat("table name ", Quoted(options.name), " is not 1 to 64 characters of A-Z a-z 0-9 _ . -"));
  }
  if (options.path.empty()) return Refused(absl::StrCat("table ", Quoted(options.name), " has an empty path"));

  std::vector<string_view> seen;
  for (const auto& [key_text, value] : given) {
    const string_view key = key_text;
    const Option* option =
        std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& o) { return key == o.key; });
    if (option == std::end(kOptions)) return UnknownOption(key);
    if (value.empty()) return Refused(absl::StrCat("table option ", key, "= has no value"));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return Refused(absl::StrCat("table option ", key, "= is given twice"));
    }
    seen.push_back(key);
    if (absl::Status status = option->set(value, &options); !status.ok()) return status;
  }
  // The file may turn out to hold keys while the format is open.
  if (options.vocab.empty() && options.format != TableFormat::kAuto && !HoldsKeys(options.format)) {
    for (const string_view key : {"invalid-keys", "duplicate-keys"}) {
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) continue;
      return Refused(absl::StrCat(
          "table option ", key, "= needs vocab=, files of format=", TableFormatName(options.format), " hold no keys"));
    }
  }
  for (const string_view key : {"hnsw-m", "hnsw-ef-construction"}) {
    if (options.hnsw || std::find(seen.begin(), seen.end(), key) == seen.end()) continue;
    return Refused(absl::StrCat("table option ", key, "= needs index=hnsw"));
  }
  if (absl::Status status = CheckTogether(options); !status.ok()) return status;
  return options;
}

}  // namespace embedding
