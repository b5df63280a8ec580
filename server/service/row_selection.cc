#include "server/service/row_selection.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"
#include "proto/vector_codec.h"
#include "server/service/request_errors.h"
#include "server/table/vocabulary.h"

namespace embedding {
namespace {

using Kind = RowSelection::Kind;

// Positions that KEY_NOT_FOUND lists.
constexpr size_t kListedPositions = 16;

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kKeys:
      return "keys";
    case Kind::kIdTensor:
      return "id_tensor";
    default:
      return "ids";
  }
}

std::string Name(const RowSelection& rows, absl::string_view prefix) {
  return absl::StrCat(prefix, KindName(rows.kind));
}

std::string Path(const RowSelection& rows, absl::string_view prefix) {
  return absl::StrCat(prefix, rows.bare ? "" : "rows.", KindName(rows.kind));
}

// The product of the sizes, or nullopt if it does not fit 64 bits. Sizes >= 0.
std::optional<int64_t> Product(const std::vector<int64_t>& sizes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

absl::Status CheckCount(const RowSelection& rows, const RequestLimits& limits, absl::string_view prefix) {
  if (rows.count <= limits.max_ids) return absl::OkStatus();
  return LimitExceeded(Path(rows, prefix), absl::StrCat(Name(rows, prefix), " has ", rows.count, " entries"),
                       limits.max_ids, "--max-ids", absl::StrCat("the largest batch that fits is ", limits.max_ids));
}

absl::Status CheckShape(RowSelection& rows, ShapeRule rule, absl::string_view prefix) {
  const std::string name = Name(rows, prefix);
  const std::string path = absl::StrCat(Path(rows, prefix), ".shape");
  if (rows.rank == 0) {
    rows.rank = 1;
    rows.shape = {rows.count};
    return absl::OkStatus();
  }
  if (rule == ShapeRule::kOneDimension && rows.rank > 1) {
    return InvalidField(
        path, absl::StrCat(name, ".shape has ", rows.rank, " dimensions, must have 1: only Lookup takes more"));
  }
  if (rows.rank > kMaxRank) {
    return InvalidField(path, absl::StrCat(name, ".shape has ", rows.rank, " dimensions, at most ", kMaxRank));
  }
  for (size_t i = 0; i < rows.shape.size(); ++i) {
    if (rows.shape[i] < 0) {
      return InvalidField(absl::StrCat(path, "[", i, "]"),
                          absl::StrCat(name, ".shape[", i, "]=", rows.shape[i], ", must be >= 0"));
    }
  }
  const std::optional<int64_t> product = Product(rows.shape);
  if (product == rows.count) return absl::OkStatus();
  const std::string elements = product ? absl::StrCat(*product, " elements") : "more elements than 64 bits can count";
  const std::string shape = ShapeText(rows.shape.data(), static_cast<int64_t>(rows.shape.size()), rows.rank);
  if (rows.kind == Kind::kIdTensor) {
    const size_t size = WireDtypeSize(static_cast<v1::Dtype>(rows.dtype));
    return InvalidField(path, absl::StrCat(name, ".shape ", shape, " has ", elements, " of ", size, " bytes, data has ",
                                           rows.data.size(), " bytes"));
  }
  return InvalidField(
      path, absl::StrCat(name, ".shape ", shape, " has ", elements, ", ", name, " has ", rows.count, " entries"));
}

// Dtype and whole elements; sets count.
absl::Status CheckIdTensor(RowSelection& rows, absl::string_view prefix) {
  const std::string name = Name(rows, prefix);
  const std::string path = Path(rows, prefix);
  if (rows.dtype != v1::DTYPE_I32 && rows.dtype != v1::DTYPE_I64) {
    return InvalidField(absl::StrCat(path, ".dtype"),
                        absl::StrCat(name, ".dtype=", DtypeText(rows.dtype), ", allowed: DTYPE_I32, DTYPE_I64"));
  }
  if (rows.num_values != 0) {
    return InvalidField(absl::StrCat(path, ".values"),
                        absl::StrCat(name, ".values has ", rows.num_values, " entries, ids go into data"));
  }
  const size_t size = WireDtypeSize(static_cast<v1::Dtype>(rows.dtype));
  if (rows.data.size() % size != 0) {
    return InvalidField(absl::StrCat(path, ".data"),
                        absl::StrCat(name, ".data has ", rows.data.size(), " bytes, must be a multiple of ", size));
  }
  rows.count = static_cast<int64_t>(rows.data.size() / size);
  return absl::OkStatus();
}

void DecodeIdTensor(RowSelection& rows) {
  rows.ids.resize(static_cast<size_t>(rows.count));
  if (rows.count == 0) return;
  if (rows.dtype == v1::DTYPE_I64) {
    std::memcpy(rows.ids.data(), rows.data.data(), rows.data.size());
    return;
  }
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    int32_t id = 0;
    std::memcpy(&id, rows.data.data() + i * sizeof id, sizeof id);
    rows.ids[i] = id;
  }
}

absl::Status WrongId(const RowSelection& rows, const EmbeddingTable& table, absl::string_view prefix, int64_t index) {
  const int64_t id = rows.ids[static_cast<size_t>(index)];
  const std::string name = ElementName(rows, prefix, index);
  const std::string path = ElementPath(rows, prefix, index);
  if (id < 0) return InvalidField(path, absl::StrCat(name, "=", id, ", must be >= 0"));
  const std::string message =
      absl::StrCat(name, " is ", id, ", table \"", table.name(), "\" has ", table.num_rows(), " rows");
  return ErrorWithDetails(absl::StatusCode::kOutOfRange, message,
                          {"ID_OUT_OF_RANGE",
                           {{"table", table.name()},
                            {"position", absl::StrCat(index)},
                            {"id", absl::StrCat(id)},
                            {"rows", absl::StrCat(table.num_rows())}},
                           {{path, message}}});
}

absl::Status KeysNotFound(const RowSelection& rows, const EmbeddingTable& table, absl::string_view prefix,
                          const std::vector<int64_t>& listed, int64_t total) {
  std::string positions;
  for (const int64_t position : listed) absl::StrAppend(&positions, positions.empty() ? "" : ", ", position);
  std::string message = absl::StrCat(ElementName(rows, prefix, listed.front()), " is not a key of table \"",
                                     table.name(), "\"; ", total, " of ", rows.count, " missing, at ", positions);
  if (total > static_cast<int64_t>(listed.size())) message += ", ...";
  return ErrorWithDetails(
      absl::StatusCode::kNotFound, message,
      {"KEY_NOT_FOUND", {{"table", table.name()}, {"positions", positions}, {"total", absl::StrCat(total)}}, {}});
}

// mark: what is missing is marked, not refused. num_missing: as in ResolveRows, never null.
absl::Status ResolveKeys(RowSelection& rows, const EmbeddingTable& table, absl::string_view prefix, bool mark,
                         int64_t* num_missing) {
  const Vocabulary* vocabulary = table.vocabulary();
  if (vocabulary == nullptr) return NoKeys(table);
  rows.ids.resize(rows.keys.size());
  std::vector<int64_t> listed;
  int64_t total = 0;
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    if (const std::optional<int64_t> id = vocabulary->Find(rows.keys[i])) {
      rows.ids[i] = *id;
      continue;
    }
    ++total;
    if (mark) {
      rows.ids[i] = kMissingId;
      rows.missing.push_back(static_cast<int64_t>(i));
      continue;
    }
    if (listed.size() < kListedPositions) listed.push_back(static_cast<int64_t>(i));
  }
  *num_missing = total;
  if (total == 0 || mark) return absl::OkStatus();
  return KeysNotFound(rows, table, prefix, listed, total);
}

template <typename List>
void TakeShape(const List& shape, RowSelection& rows) {
  rows.rank = shape.size();
  rows.shape.assign(shape.begin(), shape.begin() + std::min<int64_t>(rows.rank, kMaxRank + 1));
}

}  // namespace

std::string SelectionName(const RowSelection& rows, absl::string_view prefix) { return Name(rows, prefix); }

std::string SelectionPath(const RowSelection& rows, absl::string_view prefix) { return Path(rows, prefix); }

std::string ElementName(const RowSelection& rows, absl::string_view prefix, int64_t index) {
  std::string name = absl::StrCat(Name(rows, prefix), "[", index, "]");
  if (rows.kind == Kind::kKeys) {
    absl::StrAppend(&name, " \"", Escaped(rows.keys[static_cast<size_t>(index)]), "\"");
  }
  return name;
}

std::string ElementPath(const RowSelection& rows, absl::string_view prefix, int64_t index) {
  // The elements of id_tensor are bytes: no path leads to one of them.
  if (rows.kind == Kind::kIdTensor) return absl::StrCat(Path(rows, prefix), ".data");
  return absl::StrCat(Path(rows, prefix), ".values[", index, "]");
}

RowSelection SelectionOf(const v1::IdList& ids, int64_t keep) {
  RowSelection rows;
  rows.kind = Kind::kIds;
  rows.count = ids.values_size();
  rows.ids.assign(ids.values().begin(), ids.values().begin() + std::min(rows.count, keep));
  TakeShape(ids.shape(), rows);
  return rows;
}

RowSelection SelectionOf(const v1::KeyList& keys, int64_t keep) {
  RowSelection rows;
  rows.kind = Kind::kKeys;
  rows.count = keys.values_size();
  rows.keys.assign(keys.values().begin(), keys.values().begin() + static_cast<int>(std::min(rows.count, keep)));
  TakeShape(keys.shape(), rows);
  return rows;
}

RowSelection SelectionOf(const v1::RowSelector& selector, int64_t keep) {
  switch (selector.rows_case()) {
    case v1::RowSelector::kIds:
      return SelectionOf(selector.ids(), keep);
    case v1::RowSelector::kKeys:
      return SelectionOf(selector.keys(), keep);
    case v1::RowSelector::kIdTensor: {
      const v1::Tensor& tensor = selector.id_tensor();
      RowSelection rows;
      rows.kind = Kind::kIdTensor;
      rows.dtype = tensor.dtype();
      rows.data = tensor.data();
      rows.num_values = tensor.values_size();
      TakeShape(tensor.shape(), rows);
      return rows;
    }
    case v1::RowSelector::ROWS_NOT_SET:
      break;
  }
  return {};
}

absl::Status CheckRows(RowSelection& rows, const RequestLimits& limits, ShapeRule rule, absl::string_view prefix) {
  if (rows.kind == Kind::kUnset) {
    const std::string path = absl::StrCat(prefix, "rows");
    return InvalidField(path, absl::StrCat(path, " is unset, must hold ids, keys or id_tensor"));
  }
  if (rows.kind == Kind::kIdTensor) {
    if (absl::Status status = CheckIdTensor(rows, prefix); !status.ok()) return status;
  }
  if (absl::Status status = CheckCount(rows, limits, prefix); !status.ok()) return status;
  if (absl::Status status = CheckShape(rows, rule, prefix); !status.ok()) return status;
  if (rows.kind == Kind::kIdTensor) DecodeIdTensor(rows);
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    if (rows.keys[i].size() > kMaxKeyBytes) {
      const auto index = static_cast<int64_t>(i);
      return InvalidField(ElementPath(rows, prefix, index),
                          absl::StrCat(ElementName(rows, prefix, index), " has ", rows.keys[i].size(),
                                       " bytes, at most ", kMaxKeyBytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRowCounts(const FieldCounts& counts, absl::string_view at, bool bare, const RequestLimits& limits,
                            absl::string_view prefix) {
  for (const Kind kind : {Kind::kIds, Kind::kKeys, Kind::kIdTensor}) {
    if (bare && kind == Kind::kIdTensor) continue;
    const std::string list = absl::StrCat(at, KindName(kind));
    RowSelection rows;
    rows.kind = kind;
    rows.bare = bare;
    // The elements of a tensor are bytes, of which the parser makes no more than there are.
    if (kind != Kind::kIdTensor) rows.count = counts.Of(list + ".values");
    if (absl::Status status = CheckCount(rows, limits, prefix); !status.ok()) return status;
    rows.rank = counts.Of(list + ".shape");
    if (rows.rank <= kMaxRank) continue;
    if (absl::Status status = CheckShape(rows, ShapeRule::kOneDimension, prefix); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMissing(int32_t policy, std::initializer_list<v1::MissingPolicy> allowed, absl::string_view path) {
  if (policy == v1::MISSING_POLICY_UNSPECIFIED) return absl::OkStatus();
  std::string names;
  for (const v1::MissingPolicy one : allowed) {
    if (policy == one) return absl::OkStatus();
    absl::StrAppend(&names, names.empty() ? "" : ", ", v1::MissingPolicy_Name(one), " (", static_cast<int>(one), ")");
  }
  const std::string given =
      v1::MissingPolicy_IsValid(policy)
          ? absl::StrCat(v1::MissingPolicy_Name(static_cast<v1::MissingPolicy>(policy)), " (", policy, ")")
          : absl::StrCat(policy);
  return InvalidField(path, absl::StrCat(path, "=", given, ", allowed: ", names));
}

absl::Status ResolveRows(RowSelection& rows, const EmbeddingTable& table, absl::string_view prefix,
                         v1::MissingPolicy policy, int64_t* num_missing) {
  int64_t ignored = 0;
  if (num_missing == nullptr) num_missing = &ignored;
  *num_missing = 0;
  const bool mark = policy != v1::MISSING_POLICY_UNSPECIFIED && policy != v1::MISSING_POLICY_ERROR;
  rows.missing.clear();
  if (rows.kind == Kind::kKeys) return ResolveKeys(rows, table, prefix, mark, num_missing);
  // One comparison finds both kinds of wrong ids: as unsigned numbers, negative ones are larger than every count of
  // rows.
  const auto num_rows = static_cast<uint64_t>(table.num_rows());
  bool wrong = false;
  for (const int64_t id : rows.ids) wrong |= static_cast<uint64_t>(id) >= num_rows;
  if (!wrong) return absl::OkStatus();
  const auto is_wrong = [&](int64_t id) { return id < 0 || (!mark && id >= table.num_rows()); };
  const auto first = std::find_if(rows.ids.begin(), rows.ids.end(), is_wrong);
  if (first != rows.ids.end()) {
    if (*first >= 0) {
      *num_missing = std::count_if(first, rows.ids.end(), [&](int64_t id) { return id >= table.num_rows(); });
    }
    return WrongId(rows, table, prefix, first - rows.ids.begin());
  }
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    if (rows.ids[i] < table.num_rows()) continue;
    rows.ids[i] = kMissingId;
    rows.missing.push_back(static_cast<int64_t>(i));
  }
  *num_missing = static_cast<int64_t>(rows.missing.size());
  return absl::OkStatus();
}

}  // namespace embedding
