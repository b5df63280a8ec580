#include "server/service/lookup_bags.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "server/service/request_errors.h"

namespace embedding {
namespace {

PoolMode ModeOf(int32_t mode) {
  switch (mode) {
    case v1::POOLING_MODE_MEAN:
      return PoolMode::kMean;
    case v1::POOLING_MODE_MAX:
      return PoolMode::kMax;
    default:
      return PoolMode::kSum;
  }
}

absl::Status CheckNumBags(int64_t num_bags, absl::string_view path, const RequestLimits& limits) {
  if (num_bags <= limits.max_ids) return absl::OkStatus();
  return LimitExceeded(path, absl::StrCat(path, " makes ", num_bags, " bags"), limits.max_ids, "--max-ids",
                       absl::StrCat("the largest batch that fits is ", limits.max_ids));
}

// Ids [B, N].
absl::Status TakeRowsOfShape(const PoolingFields& pooling, const RowSelection& rows, const RequestLimits& limits,
                             Bags* bags) {
  const std::string name = SelectionName(rows, "");
  const std::string shape = ShapeText(rows.shape.data(), rows.rank, rows.rank);
  if (pooling.num_offsets != 0) {
    return InvalidField("pooling.offsets",
                        absl::StrCat("pooling.offsets has ", pooling.num_offsets, " entries, ", name, " of shape ",
                                     shape, " are ", rows.shape[0], " bags and take none"));
  }
  if (pooling.include_last_offset) {
    return InvalidField("pooling.include_last_offset",
                        absl::StrCat("pooling.include_last_offset is set, ", name, " of shape ", shape, " are ",
                                     rows.shape[0], " bags and take no offsets"));
  }
  if (absl::Status status = CheckNumBags(rows.shape[0], SelectionPath(rows, "") + ".shape", limits); !status.ok()) {
    return status;
  }
  for (int64_t b = 0; b <= rows.shape[0]; ++b) bags->begins.push_back(b * rows.shape[1]);
  return absl::OkStatus();
}

// Ids of one dimension.
absl::Status TakeOffsets(const PoolingFields& pooling, const RowSelection& rows, const RequestLimits& limits,
                         Bags* bags) {
  const std::string name = SelectionName(rows, "");
  if (pooling.num_offsets == 0) {
    bags->begins = {0};
    if (rows.count == 0) return absl::OkStatus();
    return InvalidField("pooling.offsets", absl::StrCat("pooling.offsets is empty, ", name, " has ", rows.count,
                                                        " entries of one dimension and needs where each bag begins"));
  }
  const int64_t num_bags = pooling.num_offsets - (pooling.include_last_offset ? 1 : 0);
  if (absl::Status status = CheckNumBags(num_bags, "pooling.offsets", limits); !status.ok()) return status;
  int64_t before = 0;
  for (size_t i = 0; i < pooling.offsets.size(); ++i) {
    const int64_t offset = pooling.offsets[i];
    const auto refuse = [&](const std::string& bound) {
      const std::string path = absl::StrCat("pooling.offsets[", i, "]");
      return InvalidField(path, absl::StrCat(path, "=", offset, ", ", bound));
    };
    if (i == 0 && offset != 0) return refuse("must be 0");
    if (offset < before) return refuse(absl::StrCat("must be at least ", before, ", the one before it"));
    if (offset > rows.count) return refuse(absl::StrCat("must be at most ", rows.count, ", the entries of ", name));
    before = offset;
  }
  bags->begins = pooling.offsets;
  if (!pooling.include_last_offset) {
    bags->begins.push_back(rows.count);
  } else if (before != rows.count) {
    const std::string path = absl::StrCat("pooling.offsets[", num_bags, "]");
    return InvalidField(path, absl::StrCat(path, "=", before, ", must be ", rows.count, ", the entries of ", name,
                                           ", with include_last_offset"));
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const PoolingFields& pooling, const RowSelection& rows) {
  if (pooling.num_weights == 0) return absl::OkStatus();
  if (pooling.mode != v1::POOLING_MODE_UNSPECIFIED && pooling.mode != v1::POOLING_MODE_SUM) {
    return InvalidField("pooling.weights",
                        absl::StrCat("pooling.weights has ", pooling.num_weights, " entries, ",
                                     v1::PoolingMode_Name(static_cast<v1::PoolingMode>(pooling.mode)),
                                     " takes none: only POOLING_MODE_SUM does"));
  }
  if (pooling.num_weights != rows.count) {
    return InvalidField("pooling.weights", absl::StrCat("pooling.weights has ", pooling.num_weights, " entries, ",
                                                        SelectionName(rows, ""), " has ", rows.count));
  }
  for (size_t i = 0; i < pooling.weights.size(); ++i) {
    const float weight = pooling.weights[i];
    if (std::isfinite(weight)) continue;
    const std::string path = absl::StrCat("pooling.weights[", i, "]");
    const char* const value = std::isnan(weight) ? "NaN" : weight > 0 ? "Infinity" : "-Infinity";
    return InvalidField(path, absl::StrCat(path, " is ", value, ", must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPooling(const PoolingFields& pooling, const RowSelection& rows, const RequestLimits& limits,
                          Bags* bags) {
  if (absl::Status status = CheckEnum("pooling.mode", pooling.mode, v1::PoolingMode_descriptor()); !status.ok()) {
    return status;
  }
  bags->mode = ModeOf(pooling.mode);
  bags->begins.clear();
  if (rows.rank > 2) {
    return InvalidField(SelectionPath(rows, "") + ".shape",
                        absl::StrCat(SelectionName(rows, ""), ".shape has ", rows.rank,
                                     " dimensions, pooling takes 1 (with offsets) or 2 (bags, ids of a bag)"));
  }
  const auto take = rows.rank == 2 ? TakeRowsOfShape : TakeOffsets;
  if (absl::Status status = take(pooling, rows, limits, bags); !status.ok()) return status;
  if (absl::Status status = CheckWeights(pooling, rows); !status.ok()) return status;
  if (pooling.padding_id && *pooling.padding_id < 0) {
    return InvalidField("pooling.padding_id",
                        absl::StrCat("pooling.padding_id=", *pooling.padding_id, ", must be >= 0"));
  }
  return absl::OkStatus();
}

}  // namespace embedding
