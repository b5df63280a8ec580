#include "server/service/operand.h"

#include <cfloat>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/status_codec.h"
#include "proto/vector_codec.h"
#include "server/search/finite.h"
#include "server/service/request_errors.h"

namespace embedding {
namespace {

// Multiply-adds between two polls of a stop predicate: well below a millisecond.
constexpr int64_t kWorkPerPoll = int64_t{1} << 18;

std::optional<ElementType> VectorElementType(v1::Dtype dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return ElementType::kF32;
    case v1::DTYPE_F16:
      return ElementType::kF16;
    case v1::DTYPE_BF16:
      return ElementType::kBF16;
    case v1::DTYPE_F64:
      return ElementType::kF64;
    default:
      return std::nullopt;
  }
}

// What is wrong with an element.
std::string Complaint(double value) {
  if (std::isnan(value)) return "is NaN, must be finite";
  if (std::isinf(value)) return value > 0 ? "is Infinity, must be finite" : "is -Infinity, must be finite";
  return absl::StrFormat("is %.9g, must be within +-%.9g", value, FLT_MAX);
}

}  // namespace

absl::Status CheckOperandCounts(const FieldCounts& counts, absl::string_view at, const RequestLimits& limits,
                                absl::string_view prefix) {
  absl::Status status = CheckRowCounts(counts, absl::StrCat(at, "rows."), false, limits, prefix);
  if (!status.ok()) return status;
  const int64_t rank = counts.Of(absl::StrCat(at, "vectors.shape"));
  if (rank <= kMaxRank) return absl::OkStatus();
  const std::string path = absl::StrCat(prefix, "vectors.shape");
  return InvalidField(path, absl::StrCat(path, " has ", rank, " dimensions, must be [n, d] or [d]"));
}

absl::Status Operand::Check(const v1::VectorSet& set, bool present, const RequestLimits& limits,
                            absl::string_view prefix) {
  prefix_ = std::string(prefix);
  switch (set.vectors_of_case()) {
    case v1::VectorSet::kRows: {
      is_rows_ = true;
      rows_ = SelectionOf(set.rows(), limits.max_ids);
      absl::Status status = CheckRows(rows_, limits, ShapeRule::kOneDimension, prefix);
      count_ = rows_.count;
      return status;
    }
    case v1::VectorSet::kVectors:
      return CheckVectors(set.vectors());
    case v1::VectorSet::VECTORS_OF_NOT_SET:
      break;
  }
  const absl::string_view name = prefix.substr(0, prefix.size() - 1);
  return InvalidField(name, absl::StrCat(name, present ? " is empty" : " is unset", ", must hold rows or vectors"));
}

absl::Status Operand::CheckVectors(const v1::Tensor& tensor) {
  const std::string name = prefix_ + "vectors";
  const bool as_values = tensor.values_size() != 0;
  if (as_values && !tensor.data().empty()) {
    return InvalidField(name, absl::StrCat(name, " has ", tensor.data().size(), " bytes of data and ",
                                           tensor.values_size(), " values, must have one of them"));
  }
  // Without elements the dtype decides nothing, but a wrong one is still wrong.
  const bool unset_is_f32 = as_values || tensor.data().empty();
  const v1::Dtype dtype = unset_is_f32 && tensor.dtype() == v1::DTYPE_UNSPECIFIED ? v1::DTYPE_F32 : tensor.dtype();
  const std::optional<ElementType> type = VectorElementType(dtype);
  if (!type || (as_values && dtype != v1::DTYPE_F32)) {
    return InvalidField(name + ".dtype", absl::StrCat(name, ".dtype=", DtypeText(tensor.dtype()), ", allowed",
                                                      as_values ? " with values: DTYPE_F32 or unset"
                                                                : ": DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64"));
  }
  const std::string shape = ShapeText(tensor.shape().data(), tensor.shape_size(), tensor.shape_size());
  if (tensor.shape_size() != 1 && tensor.shape_size() != 2) {
    return InvalidField(name + ".shape", absl::StrCat(name, ".shape ", shape, " has ", tensor.shape_size(),
                                                      " dimensions, must be [n, d] or [d]"));
  }
  for (int i = 0; i < tensor.shape_size(); ++i) {
    if (tensor.shape(i) < 0) {
      return InvalidField(absl::StrCat(name, ".shape[", i, "]"),
                          absl::StrCat(name, ".shape[", i, "]=", tensor.shape(i), ", must be >= 0"));
    }
  }
  count_ = tensor.shape_size() == 1 ? 1 : tensor.shape(0);
  width_ = tensor.shape(tensor.shape_size() - 1);
  type_ = *type;
  data_ = as_values ? static_cast<const void*>(tensor.values().data()) : tensor.data().data();
  int64_t elements = 0, bytes = 0;
  if (__builtin_mul_overflow(count_, width_, &elements) ||
      __builtin_mul_overflow(elements, static_cast<int64_t>(ElementSize(type_)), &bytes)) {
    return InvalidField(name + ".shape",
                        absl::StrCat(name, ".shape ", shape, " has more bytes than 64 bits can count, ",
                                     as_values ? absl::StrCat("values has ", tensor.values_size(), " entries")
                                               : absl::StrCat("data has ", tensor.data().size(), " bytes")));
  }
  if (as_values && tensor.values_size() != elements) {
    return InvalidField(name + ".values", absl::StrCat(name, ".shape ", shape, " needs ", elements,
                                                       " values, values has ", tensor.values_size()));
  }
  if (!as_values && static_cast<int64_t>(tensor.data().size()) != bytes) {
    return InvalidField(name + ".data", absl::StrCat(name, ".shape ", shape, " of ", DtypeText(dtype), " needs ", bytes,
                                                     " bytes, data has ", tensor.data().size()));
  }
  return absl::OkStatus();
}

absl::Status Operand::CheckWidth(const EmbeddingTable& table) const {
  if (is_rows_ || width_ == table.dim()) return absl::OkStatus();
  return InvalidField(prefix_ + "vectors.shape",
                      absl::StrCat(prefix_, "vectors has ", width_, " values a row, table \"", table.name(), "\" is ",
                                   table.dim(), " wide"));
}

absl::Status Operand::CheckFinite() const {
  const std::optional<UnfitElement> unfit = FirstUnfitElement(type_, data_, count_, width_);
  if (!unfit) return absl::OkStatus();
  const std::string name = prefix_ + "vectors";
  return InvalidField(name, absl::StrCat(name, "[", unfit->row, "][", unfit->column, "] ", Complaint(unfit->value)));
}

absl::Status Operand::Resolve(const EmbeddingTable& table, v1::MissingPolicy policy) {
  dim_ = table.dim();
  if (!is_rows_) {
    if (count_ == 0) return absl::OkStatus();
    if (absl::Status status = CheckFinite(); !status.ok()) return status;
    const size_t stride = static_cast<size_t>(width_) * ElementSize(type_);
    views_.reserve(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) {
      views_.push_back({static_cast<const std::byte*>(data_) + static_cast<size_t>(i) * stride, type_});
    }
    return absl::OkStatus();
  }
  if (absl::Status status = ResolveRows(rows_, table, prefix_, policy, &num_missing_); !status.ok()) return status;
  if (!table.non_finite_rows().empty()) {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t id = rows_.ids[static_cast<size_t>(i)];
      if (table.IsFinite(id)) continue;
      return ErrorWithDetails(
          absl::StatusCode::kFailedPrecondition,
          absl::StrCat(ElementName(rows_, prefix_, i), " is row ", id, " of table \"", table.name(),
                       "\", which holds NaN or infinity and has no score"),
          {"NON_FINITE_ROW", {{"table", table.name()}, {"position", absl::StrCat(i)}, {"id", absl::StrCat(id)}}, {}});
    }
  }
  if (!rows_.missing.empty()) zeros_.resize(table.row_bytes());
  views_.reserve(rows_.ids.size());
  for (const int64_t id : rows_.ids) {
    views_.push_back({id == kMissingId ? zeros_.data() : table.row(id), ElementTypeOf(table.dtype())});
  }
  return absl::OkStatus();
}

void Operand::AddTo(WeightedMean& mean, const Terms& terms, StopPoll& stop) const {
  int64_t work = 0;
  for (size_t i = 0; i < views_.size(); ++i) {
    const double weight = terms.sign * (terms.weights == nullptr ? 1.0 : double{terms.weights[i]});
    if (is_rows_ && terms.unit_rows) {
      mean.AddUnit(views_[i], weight);
    } else {
      mean.Add(views_[i], weight);
    }
    work += dim_;
    if (work < kWorkPerPoll) continue;
    if (stop.ShouldStop()) return;
    work = 0;
  }
}

}  // namespace embedding
