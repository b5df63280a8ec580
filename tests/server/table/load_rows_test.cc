#include "server/table/load_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

class LoadRowsTest : public ::testing::TestWithParam<int> {
 protected:
  absl::StatusOr<LoadedRows> Load(const std::string& bytes, const RowLayout& layout, bool allow_non_finite = false,
                                  SourceFile::ReadFunction read = {}, const LoadProgress& progress = {},
                                  RowObserver* observer = nullptr) {
    absl::StatusOr<SourceFile> file = SourceFile::Open(folder_.Write("f", bytes), std::move(read));
    if (!file.ok()) return file.status();
    return LoadRows(*file, layout, allow_non_finite, pool_, progress, observer);
  }

  TempFolder folder_;
  WorkerPool pool_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Threads, LoadRowsTest, ::testing::Values(1, 2, 5));

// Three blocks and a bit, rows of 12 bytes across the borders, rows from an odd offset on.
constexpr int64_t kRows = 1'100'001;
constexpr int64_t kDim = 3;

std::vector<float> LargeTable() {
  std::vector<float> values(static_cast<size_t>(kRows * kDim));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

TEST_P(LoadRowsTest, TheBytesOfAllBlocksArriveInPlace) {
  const std::string bytes = Raw(LargeTable());
  const absl::StatusOr<LoadedRows> rows = Load("xyz" + bytes, {Dtype::kF32, kRows, kDim, 3, false});
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(rows->dtype, Dtype::kF32);
  EXPECT_EQ(std::memcmp(rows->bytes.get(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(rows->digests.size(), 4u);
  EXPECT_EQ(rows->zero_rows, 0);
}

TEST_P(LoadRowsTest, RowsAcrossBlocksAreScannedToo) {
  std::vector<float> values = LargeTable();
  // Row 349525 holds bytes 4194300..4194311: the first border is at 4194304. The row before and the one behind are
  // whole.
  const int64_t border_row = static_cast<int64_t>(kFingerprintBlockBytes) / 12;
  ASSERT_NE(kFingerprintBlockBytes % 12, 0u);
  for (const int64_t row : {border_row - 1, border_row, border_row + 1}) {
    for (int64_t column = 0; column < kDim; ++column) values[static_cast<size_t>(row * kDim + column)] = 0;
  }
  const absl::StatusOr<LoadedRows> zeros = Load(Raw(values), {Dtype::kF32, kRows, kDim, 0, false});
  ASSERT_THAT(zeros, Succeeds());
  EXPECT_EQ(zeros->zero_rows, 3);

  values[static_cast<size_t>(border_row * kDim + 2)] = std::numeric_limits<float>::quiet_NaN();
  values[static_cast<size_t>((kRows - 1) * kDim)] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      Load(Raw(values), {Dtype::kF32, kRows, kDim, 0, false}),
      Fails(kDataLoss, HasSubstr("row " + std::to_string(border_row) + ", column 2 is NaN; 2 non-finite values")));
  const absl::StatusOr<LoadedRows> allowed = Load(Raw(values), {Dtype::kF32, kRows, kDim, 0, false}, true);
  ASSERT_THAT(allowed, Succeeds());
  EXPECT_THAT(allowed->non_finite_rows, ElementsAre(border_row, kRows - 1));
  EXPECT_EQ(allowed->zero_rows, 2);
  EXPECT_EQ(std::memcmp(allowed->bytes.get(), values.data(), values.size() * 4), 0);
}

TEST_P(LoadRowsTest, ARowMayBeLongerThanABlock) {
  const int64_t dim = static_cast<int64_t>(kFingerprintBlockBytes / 2) + 7;  // F16: a little over one block
  std::vector<uint16_t> values(static_cast<size_t>(3 * dim), 0x3C00);
  std::fill(values.begin() + dim, values.begin() + 2 * dim, uint16_t{0});
  values.back() = 0x7E00;
  const absl::StatusOr<LoadedRows> rows = Load(Raw(values), {Dtype::kF16, 3, dim, 0, false}, true);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(rows->zero_rows, 1);
  EXPECT_THAT(rows->non_finite_rows, ElementsAre(2));
}

TEST_P(LoadRowsTest, F64IsNarrowedToNearestEven) {
  const std::vector<double> values = {1.0, 0.1, 1.0 + 0x1p-24, 1.0 + 3 * 0x1p-24, 3.4028234663852886e38, 1e-46};
  const absl::StatusOr<LoadedRows> rows = Load(Raw(values), {Dtype::kF64, 2, 3, 0, false});
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(rows->dtype, Dtype::kF32);
  float narrow[6];
  std::memcpy(narrow, rows->bytes.get(), sizeof(narrow));
  EXPECT_THAT(narrow, ElementsAre(1.0f, 0.1f, 1.0f, 1.0f + 0x1p-22f, std::numeric_limits<float>::max(), 0.0f));
}

TEST_P(LoadRowsTest, AnF64ValueBeyondF32IsNamedTheLowestFirst) {
  std::vector<double> values(3 << 20, 1.0);
  values[2'000'001] = -1e39;
  values[2'500'000] = 1e300;
  EXPECT_THAT(
      Load(Raw(values), {Dtype::kF64, 1 << 20, 3, 0, false}),
      Fails(kDataLoss, "row 666667, column 0 is -1e+39 in F64, beyond the range of F32, to which F64 is narrowed"));
}

TEST_P(LoadRowsTest, BigEndianElementsAreSwapped) {
  const absl::StatusOr<LoadedRows> rows = Load(std::string("\x3f\x80\0\0\xc0\0\0\0", 8), {Dtype::kF32, 1, 2, 0, true});
  ASSERT_THAT(rows, Succeeds());
  float values[2];
  std::memcpy(values, rows->bytes.get(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(1.0f, -2.0f));
}

TEST_P(LoadRowsTest, ADiskErrorInTheMiddleStopsTheLoad) {
  const auto read = [](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
    constexpr off_t kBad = 7'000'000;
    if (offset <= kBad && kBad < offset + static_cast<off_t>(count)) {
      if (offset == kBad) {
        errno = EIO;
        return -1;
      }
      count = static_cast<size_t>(kBad - offset);  // as the kernel does: what comes before the bad sector
    }
    return pread(descriptor, to, count, offset);
  };
  EXPECT_THAT(Load(Raw(LargeTable()), {Dtype::kF32, kRows, kDim, 0, false}, false, read),
              Fails(kDataLoss, "read error at byte 7000000: Input/output error"));
}

TEST_P(LoadRowsTest, AFileThatShrinksIsNoticed) {
  const auto read = [](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
    return offset >= 5'000'000 ? 0 : pread(descriptor, to, count, offset);
  };
  EXPECT_THAT(Load(Raw(LargeTable()), {Dtype::kF32, kRows, kDim, 0, false}, false, read),
              Fails(kDataLoss, HasSubstr("changed while being read: the file ends at byte")));
}

TEST_P(LoadRowsTest, ProgressRisesToTheTotal) {
  std::atomic<int> inside{0};
  std::vector<int64_t> seen;
  const absl::StatusOr<LoadedRows> rows =
      Load(Raw(LargeTable()), {Dtype::kF32, kRows, kDim, 0, false}, false, {}, [&](int64_t done, int64_t total) {
        EXPECT_EQ(inside.fetch_add(1), 0);
        EXPECT_EQ(total, kRows * kDim * 4);
        seen.push_back(done);
        inside.fetch_sub(1);
      });
  ASSERT_THAT(rows, Succeeds());
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), kRows * kDim * 4);
}

// Reads rows before their turn until that fails.
class EagerObserver final : public RowObserver {
 public:
  void Begin(const Shape& shape, const ReadRow& read) override {
    std::vector<std::byte> row(static_cast<size_t>(shape.dim) * DtypeSize(shape.dtype));
    while (rows_read < shape.num_rows && (status = read(rows_read, row.data())).ok()) ++rows_read;
  }
  void Add(const std::byte*, int64_t, int64_t num_rows) override { rows_added += num_rows; }

  absl::Status status;
  int64_t rows_read = 0;
  std::atomic<int64_t> rows_added{0};
};

TEST_P(LoadRowsTest, StopsWhileAnObserverReadsAhead) {
  std::atomic<int> asked{0};
  EagerObserver observer;
  const absl::StatusOr<LoadedRows> rows = Load(Raw(LargeTable()), {Dtype::kF32, kRows, kDim, 0, false}, false, {},
                                               LoadProgress(nullptr, [&asked] { return ++asked > 3; }), &observer);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(observer.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(observer.rows_read, 3);
  EXPECT_EQ(observer.rows_added, 0);
}

TEST_P(LoadRowsTest, NothingIsAllocatedForRowsThatTheFileDoesNotHold) {
  EXPECT_THAT(Load("12345678", {Dtype::kF32, int64_t{1} << 31, 65536, 0, false}),
              Fails(kDataLoss, HasSubstr("file ends at byte 8, its rows begin at byte 0 and need 562949953421312")));
}

// Rows of `dim` elements with their width before each.
std::string WithWidths(const std::string& rows, int64_t dim, size_t row_bytes) {
  std::string bytes;
  for (size_t at = 0; at < rows.size(); at += row_bytes) {
    bytes += Bytes<int32_t>({static_cast<int32_t>(dim)}) + rows.substr(at, row_bytes);
  }
  return bytes;
}

TEST_P(LoadRowsTest, WidthsBetweenTheRowsAreTakenOut) {
  const std::string rows = Raw(LargeTable());
  const RowLayout floats = {.dtype = Dtype::kF32, .num_rows = kRows, .dim = kDim, .has_row_widths = true};
  const absl::StatusOr<LoadedRows> loaded = Load(WithWidths(rows, kDim, 12), floats);
  ASSERT_THAT(loaded, Succeeds());
  EXPECT_EQ(std::memcmp(loaded->bytes.get(), rows.data(), rows.size()), 0);
  const absl::StatusOr<LoadedRows> plain = Load(rows, {Dtype::kF32, kRows, kDim, 0, false});
  ASSERT_THAT(plain, Succeeds());
  EXPECT_EQ(loaded->digests, plain->digests);

  // Rows of bytes, longer than a piece, as well.
  for (const int64_t dim : {int64_t{1}, int64_t{3}, int64_t{262143}, int64_t{262145}}) {
    const std::string bytes = rows.substr(0, rows.size() / static_cast<size_t>(dim) * static_cast<size_t>(dim));
    const RowLayout layout = {
        .dtype = Dtype::kU8, .num_rows = static_cast<int64_t>(bytes.size()) / dim, .dim = dim, .has_row_widths = true};
    const absl::StatusOr<LoadedRows> of_bytes = Load(WithWidths(bytes, dim, static_cast<size_t>(dim)), layout);
    ASSERT_THAT(of_bytes, Succeeds());
    EXPECT_EQ(std::memcmp(of_bytes->bytes.get(), bytes.data(), bytes.size()), 0) << dim;
  }
}

TEST_P(LoadRowsTest, EveryRowsWidthIsCheckedAndTheFirstWrongOneNamed) {
  const std::string good = WithWidths(Raw(LargeTable()), kDim, 12);
  const RowLayout layout = {.dtype = Dtype::kF32, .num_rows = kRows, .dim = kDim, .has_row_widths = true};
  const auto border_row = static_cast<int64_t>(kFingerprintBlockBytes / 12) + 1;  // begins in the second block
  for (const int64_t row : {int64_t{0}, int64_t{1}, border_row, kRows - 1}) {
    std::string bytes = good;
    bytes[static_cast<size_t>(row) * 16] = 4;
    bytes[static_cast<size_t>(kRows - 1) * 16] = 5;
    EXPECT_THAT(Load(bytes, layout), Fails(kDataLoss, "row " + std::to_string(row) + " begins with the width " +
                                                          (row == kRows - 1 ? "5" : "4") +
                                                          ", row 0 with 3: all rows of a table have one width"));
  }
  EXPECT_THAT(Load(good.substr(0, good.size() - 1), layout), Fails(kDataLoss, HasSubstr("file ends at byte")));
}

}  // namespace
}  // namespace embedding
