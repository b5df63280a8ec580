// Random Lookups with missing rows, bags, unit vectors and fewer columns, against a short model: plain loops over the
// values of the rows, in double, following the contract word for word.
//
// EMBEDDING_LOOKUP_ROUNDS: requests for each dtype of a table; default 34,000, so 102,000 together.
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "tests/server/service/service_testing.h"
#include "tests/testing/narrow_reference.h"

namespace embedding::testing {
namespace {

constexpr int64_t kRows = 23, kDim = 11, kDefaultRow = 5;

int Rounds() {
  const char* const asked = std::getenv("EMBEDDING_LOOKUP_ROUNDS");
  return asked == nullptr ? 34000 : std::atoi(asked);
}

// What the model makes of a request.
struct Outcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<int64_t> shape;
  std::vector<float> values;  // before they are narrowed
  v1::Dtype dtype = v1::DTYPE_F32;
  std::vector<int64_t> missing;
};

struct Trial {
  v1::LookupRequest request;
  std::vector<int64_t> ids;  // of keys too: a key that does not exist is kRows
  std::vector<int64_t> shape;
};

class LookupModelTest : public ::testing::TestWithParam<Dtype> {
 protected:
  LookupModelTest() {
    const int bits = GetParam() == Dtype::kF16 ? 10 : 7;
    std::normal_distribution<float> normal;
    std::string bytes;
    for (int64_t i = 0; i < kRows * kDim; ++i) {
      // Rows of very different sizes; row 0 is zero, and some sums of the last rows are beyond F16.
      const int64_t row = i / kDim;
      float value = row == 0 ? 0 : std::ldexp(normal(random_), static_cast<int>(row) / 2 - 4);
      if (row >= kRows - 2) value *= 2048;
      if (GetParam() == Dtype::kF32) {
        bytes += RawBytes(std::vector<float>{value});
      } else {
        const uint16_t narrow = NearestOf16(value, bits).value_or(0);
        value = static_cast<float>(ReferenceFrom16(narrow, bits));
        bytes += RawBytes(std::vector<uint16_t>{narrow});
      }
      values_.push_back(value);
    }
    std::vector<std::string> keys;
    for (int64_t i = 0; i < kRows; ++i) keys.push_back("key " + std::to_string(i));
    auto table = TableFromMemory("random", GetParam(), kRows, kDim, bytes.data(), keys, kDefaultRow);
    services_ = std::make_unique<Services>(TablesOf(std::move(table)));
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  int64_t RandomId() {
    if (Below(6) == 0) return kRows + static_cast<int64_t>(Below(1000));
    return static_cast<int64_t>(Below(kRows - (Below(50) != 0 ? 2 : 0)));
  }

  void SetRows(Trial& trial, bool with_shape) {
    v1::RowSelector* const rows = trial.request.mutable_rows();
    const auto set_shape = [&](auto* list) {
      if (with_shape) list->mutable_shape()->Assign(trial.shape.begin(), trial.shape.end());
    };
    switch (Below(4)) {
      case 0:
        rows->mutable_ids()->mutable_values()->Assign(trial.ids.begin(), trial.ids.end());
        return set_shape(rows->mutable_ids());
      case 1:
        rows->mutable_keys();
        for (int64_t& id : trial.ids) {
          id = std::min(id, kRows);
          rows->mutable_keys()->add_values("key " + std::to_string(id));
        }
        return set_shape(rows->mutable_keys());
      case 2:
        rows->mutable_id_tensor()->set_dtype(v1::DTYPE_I64);
        rows->mutable_id_tensor()->set_data(RawBytes(trial.ids));
        return set_shape(rows->mutable_id_tensor());
      default:
        rows->mutable_id_tensor()->set_dtype(v1::DTYPE_I32);
        rows->mutable_id_tensor()->set_data(RawBytes(std::vector<int32_t>(trial.ids.begin(), trial.ids.end())));
        return set_shape(rows->mutable_id_tensor());
    }
  }

  void SetPooling(Trial& trial) {
    v1::Pooling* const pooling = trial.request.mutable_pooling();
    pooling->set_mode(static_cast<v1::PoolingMode>(Below(4)));
    const auto count = static_cast<int64_t>(trial.ids.size());
    if (trial.shape.size() == 1 && (count > 0 || Below(2) == 0)) {
      std::vector<int64_t> offsets = {0};
      for (uint64_t i = Below(5); i > 0; --i) offsets.push_back(static_cast<int64_t>(Below(trial.ids.size() + 1)));
      std::sort(offsets.begin(), offsets.end());
      if (Below(2) == 0) {
        offsets.push_back(count);
        pooling->set_include_last_offset(true);
      }
      pooling->mutable_offsets()->Assign(offsets.begin(), offsets.end());
    }
    if (pooling->mode() <= v1::POOLING_MODE_SUM && Below(2) == 0) {
      std::normal_distribution<float> normal;
      for (int64_t i = 0; i < count; ++i) pooling->add_weights(Below(8) == 0 ? 0 : normal(random_));
    }
    if (Below(3) == 0) pooling->set_padding_id(static_cast<int64_t>(Below(kRows)));
  }

  Trial RandomTrial() {
    Trial trial;
    const uint64_t rank = Below(4);
    int64_t count = rank == 0 ? static_cast<int64_t>(Below(9)) : 1;
    for (uint64_t i = 0; i < rank; ++i) {
      trial.shape.push_back(static_cast<int64_t>(Below(5)));
      count *= trial.shape.back();
    }
    if (rank == 0) trial.shape = {count};
    for (int64_t i = 0; i < count; ++i) trial.ids.push_back(RandomId());
    SetRows(trial, rank != 0);
    if (trial.shape.size() <= 2 && Below(2) == 0) SetPooling(trial);
    // Most of those under which a missing row fails would fail: fewer of them.
    trial.request.set_missing(static_cast<v1::MissingPolicy>(Below(4) == 0 ? Below(2) : 2 + Below(3)));
    trial.request.set_normalize(Below(3) == 0);
    if (Below(3) == 0) trial.request.set_dimensions(static_cast<int32_t>(Below(kDim + 1)));
    trial.request.set_output_dtype(static_cast<v1::Dtype>(Below(4)));
    trial.request.set_encoding(static_cast<v1::Encoding>(Below(3)));
    if (trial.request.encoding() == v1::ENCODING_FLOATS && trial.request.output_dtype() > v1::DTYPE_F32) {
      trial.request.set_output_dtype(v1::DTYPE_UNSPECIFIED);
    }
    return trial;
  }

  // Row `id` of the table, or of zeros for nullopt.
  std::vector<double> RowOf(std::optional<int64_t> id, int64_t columns) const {
    std::vector<double> row(static_cast<size_t>(columns));
    for (size_t j = 0; id && j < row.size(); ++j) row[j] = values_[static_cast<size_t>(*id * kDim) + j];
    return row;
  }

  // What stands at a position: a row, zeros, or nothing that counts.
  struct Element {
    std::optional<int64_t> row;
    bool left_out = false;
  };

  static Element ElementFor(const v1::LookupRequest& request, int64_t id, bool pooled) {
    if (pooled && request.pooling().has_padding_id() && request.pooling().padding_id() == id) return {{}, true};
    if (id < kRows) return {id};
    switch (request.missing()) {
      case v1::MISSING_POLICY_DEFAULT_ROW:
        return {kDefaultRow};
      case v1::MISSING_POLICY_SKIP:
        return {{}, true};
      default:
        return {};
    }
  }

  static std::vector<int64_t> BagEnds(const Trial& trial) {
    const v1::Pooling& pooling = trial.request.pooling();
    std::vector<int64_t> ends;
    if (trial.shape.size() == 2) {
      for (int64_t b = 1; b <= trial.shape[0]; ++b) ends.push_back(b * trial.shape[1]);
    } else if (pooling.offsets_size() > 0) {
      ends.assign(pooling.offsets().begin() + 1, pooling.offsets().end());
      if (!pooling.include_last_offset()) ends.push_back(static_cast<int64_t>(trial.ids.size()));
    }
    return ends;
  }

  std::vector<float> PooledBag(const Trial& trial, size_t begin, size_t end, int64_t columns) const {
    const v1::Pooling& pooling = trial.request.pooling();
    std::vector<double> result(static_cast<size_t>(columns));
    int count = 0;
    for (size_t i = begin; i < end; ++i) {
      const Element element = ElementFor(trial.request, trial.ids[i], true);
      if (element.left_out) continue;
      const std::vector<double> row = RowOf(element.row, columns);
      const double weight = pooling.weights_size() == 0 ? 1 : pooling.weights(static_cast<int>(i));
      for (size_t j = 0; j < row.size(); ++j) {
        if (pooling.mode() == v1::POOLING_MODE_MAX) {
          result[j] = count == 0 ? row[j] : std::max(result[j], row[j]);
        } else {
          result[j] += weight * row[j];
        }
      }
      ++count;
    }
    std::vector<float> rounded;
    for (const double value : result) {
      const bool mean = pooling.mode() == v1::POOLING_MODE_MEAN && count > 0;
      rounded.push_back(static_cast<float>(mean ? value / count : value));
    }
    return rounded;
  }

  static void Normalise(std::vector<float>& vector) {
    const double square = ReferenceSum(static_cast<int64_t>(vector.size()), [&](int64_t j) {
      const double x = vector[static_cast<size_t>(j)];
      return x * x;
    });
    for (float& x : vector) x = square == 0 ? x : static_cast<float>(x / std::sqrt(square));
  }

  Outcome Model(const Trial& trial) const {
    const v1::LookupRequest& request = trial.request;
    const bool pooled = request.has_pooling();
    const int64_t columns = request.dimensions() == 0 ? kDim : request.dimensions();
    Outcome outcome;
    if (!pooled && request.missing() == v1::MISSING_POLICY_SKIP && trial.shape.size() > 1) {
      outcome.code = absl::StatusCode::kInvalidArgument;
      return outcome;
    }
    for (size_t i = 0; i < trial.ids.size(); ++i) {
      if (trial.ids[i] >= kRows) outcome.missing.push_back(static_cast<int64_t>(i));
    }
    if (request.missing() <= v1::MISSING_POLICY_ERROR && !outcome.missing.empty()) {
      outcome.code = request.rows().has_keys() ? absl::StatusCode::kNotFound : absl::StatusCode::kOutOfRange;
      return outcome;
    }
    std::vector<std::vector<float>> vectors;
    if (pooled) {
      size_t begin = 0;
      for (const int64_t end : BagEnds(trial)) {
        vectors.push_back(PooledBag(trial, begin, static_cast<size_t>(end), columns));
        begin = static_cast<size_t>(end);
      }
      outcome.shape = {static_cast<int64_t>(vectors.size())};
    } else {
      for (const int64_t id : trial.ids) {
        const Element element = ElementFor(request, id, false);
        if (element.left_out) continue;
        const std::vector<double> row = RowOf(element.row, columns);
        vectors.emplace_back(row.begin(), row.end());
      }
      outcome.shape = trial.shape;
      if (request.missing() == v1::MISSING_POLICY_SKIP) outcome.shape = {static_cast<int64_t>(vectors.size())};
    }
    outcome.shape.push_back(columns);
    const bool computed = pooled || request.normalize();
    outcome.dtype = request.output_dtype();
    if (outcome.dtype == v1::DTYPE_UNSPECIFIED) {
      const bool own = !computed && request.encoding() != v1::ENCODING_FLOATS;
      outcome.dtype = own && GetParam() == Dtype::kF16    ? v1::DTYPE_F16
                      : own && GetParam() == Dtype::kBF16 ? v1::DTYPE_BF16
                                                          : v1::DTYPE_F32;
    }
    for (std::vector<float>& vector : vectors) {
      if (request.normalize()) Normalise(vector);
      for (const float value : vector) {
        if (outcome.dtype == v1::DTYPE_F16 && std::abs(value) >= 65520) outcome.code = absl::StatusCode::kOutOfRange;
        outcome.values.push_back(value);
      }
    }
    return outcome;
  }

  // values of the answer against those of the model, narrowed here. -0 equals +0: no sum tells them apart.
  static void ExpectSame(const v1::Tensor& tensor, const Outcome& want) {
    if (want.dtype == v1::DTYPE_F32) {
      ASSERT_EQ(FloatsOf(tensor), want.values);
      return;
    }
    const int bits = want.dtype == v1::DTYPE_F16 ? 10 : 7;
    ASSERT_EQ(tensor.data().size(), want.values.size() * sizeof(uint16_t));
    for (size_t i = 0; i < want.values.size(); ++i) {
      uint16_t got = 0;
      std::memcpy(&got, tensor.data().data() + i * sizeof got, sizeof got);
      const std::optional<uint16_t> nearest = NearestOf16(want.values[i], bits);
      ASSERT_TRUE(nearest);
      ASSERT_EQ(ReferenceFrom16(got, bits), ReferenceFrom16(*nearest, bits));
    }
  }

  std::mt19937_64 random_{20261130};
  std::vector<float> values_;
  std::unique_ptr<Services> services_;
};

TEST_P(LookupModelTest, AnswersEqualTheModel) {
  int served = 0, refused = 0, pooled = 0, skipped = 0;
  for (int round = 0; round < Rounds(); ++round) {
    const Trial trial = RandomTrial();
    const Outcome want = Model(trial);
    v1::LookupResponse response;
    const absl::Status status = services_->Lookup(trial.request, &response);
    SCOPED_TRACE(trial.request.ShortDebugString());
    ASSERT_EQ(status.code(), want.code) << status;
    if (!status.ok()) {
      ++refused;
      continue;
    }
    ++served;
    pooled += trial.request.has_pooling() ? 1 : 0;
    skipped += trial.request.missing() == v1::MISSING_POLICY_SKIP && !want.missing.empty() ? 1 : 0;
    ASSERT_EQ(ShapeOf(response.embeddings()), want.shape);
    ASSERT_EQ(response.embeddings().dtype(), want.dtype);
    ASSERT_EQ(std::vector<int64_t>(response.missing_positions().begin(), response.missing_positions().end()),
              want.missing);
    ASSERT_EQ(response.embeddings().values_size() == 0 || response.embeddings().data().empty(), true);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(response.embeddings(), want));
  }
  // Every kind is met often enough to mean something.
  EXPECT_GT(served, Rounds() / 2);
  EXPECT_GT(refused, Rounds() / 20);
  EXPECT_GT(pooled, Rounds() / 8);
  EXPECT_GT(skipped, Rounds() / 20);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LookupModelTest, ::testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBF16),
                         [](const auto& test) { return std::string(DtypeName(test.param)); });

}  // namespace
}  // namespace embedding::testing
