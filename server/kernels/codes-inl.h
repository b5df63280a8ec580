// 8-bit codes of rows (codes.h), per SIMD target.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "server/kernels/code_panels-inl.h"
#include "server/kernels/codes.h"
#include "server/kernels/elements-inl.h"
#include "server/kernels/sums-inl.h"

#if defined(EMBEDDING_SERVER_KERNELS_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_CODES_INL_H_
#undef EMBEDDING_SERVER_KERNELS_CODES_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_CODES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

using CodeF32Tag = hn::CappedTag<float, 16>;
#if HWY_TARGET != HWY_SCALAR
using CodeI16Tag = hn::CappedTag<int16_t, 32>;
using CodeU8Half = hn::Rebind<uint8_t, CodeI16Tag>;
using CodeI32Tag = hn::Repartition<int32_t, CodeI16Tag>;
#endif

// ---- Encoding

// One row, widened: [dim] float32.
void EncodeRow(const float* row, size_t dim, const float* mean, const float* inverse_scale, uint8_t* codes,
               CodedRow* coded) {
  const CodeF32Tag d;
  const hn::RebindToSigned<CodeF32Tag> di;
  const hn::Rebind<uint8_t, decltype(di)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto centred = [&](size_t j) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, row + j), hn::LoadU(d, mean + j)), hn::LoadU(d, inverse_scale + j));
  };
  size_t j = 0;
  auto largest = hn::Zero(d);
  for (; j + lanes <= dim; j += lanes) largest = hn::Max(largest, hn::Abs(centred(j)));
  float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; j < dim; ++j) max = std::max(max, std::abs((row[j] - mean[j]) * inverse_scale[j]));

  const float alpha = max / 127.0f;
  // A row of subnormal size would make it infinite: then all codes are 0 and the row is its own residual.
  const float to_code = max >= 0x1p-100f ? 127.0f / max : 0.0f;
  const auto scale = hn::Set(d, to_code);
  const auto minus_alpha = hn::Set(d, -alpha);
  const auto bias = hn::Set(di, 128);
  auto residual_squares = hn::Zero(d);
  auto code_squares = hn::Zero(d);
  for (j = 0; j + lanes <= dim; j += lanes) {
    const auto y = centred(j);
    const auto code = hn::Min(hn::Max(hn::NearestInt(hn::Mul(y, scale)), hn::Set(di, -127)), hn::Set(di, 127));
    const auto value = hn::ConvertTo(d, code);
    const auto residual = hn::MulAdd(minus_alpha, value, y);
    residual_squares = hn::MulAdd(residual, residual, residual_squares);
    code_squares = hn::MulAdd(value, value, code_squares);
    hn::StoreU(hn::DemoteTo(d8, hn::Add(code, bias)), d8, codes + j);
  }
  float residual_sum = hn::GetLane(hn::SumOfLanes(d, residual_squares));
  float code_sum = hn::GetLane(hn::SumOfLanes(d, code_squares));
  for (; j < dim; ++j) {
    const float y = (row[j] - mean[j]) * inverse_scale[j];
    const float code = std::nearbyint(std::fmin(std::fmax(y * to_code, -127.0f), 127.0f));  // NaN becomes -127
    const float residual = y - alpha * code;
    residual_sum += residual * residual;
    code_sum += code * code;
    codes[j] = static_cast<uint8_t>(static_cast<int>(code) + 128);
  }
  // Each y_j above is within 2^-22 |y_j| of the exact one (a difference, a product, with inverse_scale as given), and
  // so is each residual within 2^-22 (|y_j| + alpha |c_j|) of its own; |y_j| <= 127 alpha (1 + 2^-20). The sums of dim
  // squares are within dim + 8 roundings. What underflows is below 2^-140 for each element.
  const float n = static_cast<float>(dim);
  const float root = std::sqrt(n);
  const float sum_slack = 1 + (n + 16) * 0x1p-24f;
  coded->alpha = alpha;
  coded->error = std::sqrt(residual_sum * sum_slack) * 1.000001f + (alpha * 127.0f * 0x1p-20f + 0x1p-70f) * root;
  coded->code_norm = std::sqrt(code_sum * sum_slack) * 1.000001f;
}

void EncodeRows(const float* rows, size_t num_rows, size_t dim, const float* mean, const float* inverse_scale,
                uint8_t* codes, CodedRow* coded) {
  for (size_t i = 0; i < num_rows; ++i) {
    EncodeRow(rows + i * dim, dim, mean, inverse_scale, codes + i * dim, coded + i);
  }
}

// ---- Dot products

// Rows and queries of a tile: accumulators, one vector of each row and one of a query must fit the registers.
constexpr size_t kCodeTileRows = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr size_t kCodeTileQueries = 4;
// How far ahead the one stream of a single query is asked for.
constexpr size_t kCodePrefetchBytes = 4096;

#if HWY_TARGET != HWY_SCALAR
// dots[c * stride + r] = sum of the lanes of sums[r][c].
template <size_t kRows, size_t kQueries, typename Sums>
HWY_INLINE void StoreCodeSums(const Sums& sums, int32_t* dots, size_t stride) {
  if constexpr (kRows == 4) {
    for (size_t c = 0; c < kQueries; ++c) {
      SumsOfLanes(CodeI32Tag(), sums[0][c], sums[1][c], sums[2][c], sums[3][c], dots + c * stride);
    }
    return;
  } else if constexpr (kQueries == 4) {
    for (size_t r = 0; r < kRows; ++r) {
      int32_t of_row[4];
      SumsOfLanes(CodeI32Tag(), sums[r][0], sums[r][1], sums[r][2], sums[r][3], of_row);
      for (size_t c = 0; c < 4; ++c) dots[c * stride + r] = of_row[c];
    }
    return;
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kQueries; ++c) dots[c * stride + r] = hn::GetLane(hn::SumOfLanes(CodeI32Tag(), sums[r][c]));
  }
}
#endif

// Without vectors, and for bytes where no instruction multiplies them.
template <typename T, size_t kRows, size_t kQueries>
HWY_INLINE void PlainCodeTile(const T* queries, size_t query_stride, const uint8_t* rows, size_t dim, int32_t* dots,
                              size_t dots_stride) {
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kQueries; ++c) {
      int32_t sum = 0;
      for (size_t j = 0; j < dim; ++j) sum += queries[c * query_stride + j] * rows[r * dim + j];
      dots[c * dots_stride + r] = sum;
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// sum plus, in each lane, two products of 16 bits.
HWY_INLINE hn::Vec<CodeI32Tag> AddWordProducts(hn::Vec<CodeI16Tag> a, hn::Vec<CodeI16Tag> b, hn::Vec<CodeI32Tag> sum) {
#if EMBEDDING_HAVE_VNNI
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#else
  auto upper = hn::Zero(CodeI32Tag());  // where a target keeps half of the products apart
  const auto lower = hn::ReorderWidenMulAccumulate(CodeI32Tag(), a, b, sum, upper);
  return hn::Add(lower, upper);
#endif
}

template <size_t kRows, size_t kQueries>
HWY_INLINE void CodeTile16(const int16_t* queries, size_t query_stride, const uint8_t* rows, size_t dim, int32_t* dots,
                           size_t dots_stride) {
  const CodeI16Tag d16;
  const CodeI32Tag d32;
  const CodeU8Half d8;
  constexpr size_t kLanes = hn::MaxLanes(CodeI16Tag());
  hn::Vec<CodeI32Tag> sums[kRows][kQueries];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d32);
  }
  for (size_t j = 0; j < dim; j += kLanes) {
    if constexpr (kQueries == 1) {
      for (size_t at = 0; at < kRows * kLanes; at += 64) hwy::Prefetch(rows + j * kRows + at + kCodePrefetchBytes);
    }
    hn::Vec<CodeI16Tag> q[kQueries];
    for (size_t c = 0; c < kQueries; ++c) q[c] = hn::LoadU(d16, queries + c * query_stride + j);
    for (size_t r = 0; r < kRows; ++r) {
      const auto x = hn::PromoteTo(d16, hn::LoadU(d8, rows + r * dim + j));
      for (size_t c = 0; c < kQueries; ++c) {
        sums[r][c] = AddWordProducts(q[c], x, sums[r][c]);
      }
    }
  }
  StoreCodeSums<kRows, kQueries>(sums, dots, dots_stride);
}
#endif

#if EMBEDDING_HAVE_VNNI
HWY_INLINE hn::Vec<CodeI32Tag> AddByteProducts(hn::Vec<CodeI32Tag> sum, __m512i bytes, __m512i signed_bytes) {
  sum.raw = AddByteProducts(sum.raw, bytes, signed_bytes);
  return sum;
}

template <size_t kRows, size_t kQueries>
HWY_INLINE void CodeTile8(const int8_t* queries, size_t query_stride, const uint8_t* rows, size_t dim, int32_t* dots,
                          size_t dots_stride) {
  const CodeI32Tag d32;
  hn::Vec<CodeI32Tag> sums[kRows][kQueries];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d32);
  }
  for (size_t j = 0; j < dim; j += 64) {
    __m512i q[kQueries];
    for (size_t c = 0; c < kQueries; ++c) q[c] = _mm512_loadu_si512(queries + c * query_stride + j);
    for (size_t r = 0; r < kRows; ++r) {
      const __m512i x = _mm512_loadu_si512(rows + r * dim + j);
      for (size_t c = 0; c < kQueries; ++c) sums[r][c] = AddByteProducts(sums[r][c], x, q[c]);
    }
  }
  StoreCodeSums<kRows, kQueries>(sums, dots, dots_stride);
}
#endif

template <typename T, size_t kRows, size_t kQueries>
HWY_INLINE void CodeTile(const T* queries, size_t query_stride, const uint8_t* rows, size_t dim, int32_t* dots,
                         size_t dots_stride) {
  if constexpr (sizeof(T) == 2) {
#if HWY_TARGET != HWY_SCALAR
    return CodeTile16<kRows, kQueries>(queries, query_stride, rows, dim, dots, dots_stride);
#endif
  } else {
#if EMBEDDING_HAVE_VNNI
    return CodeTile8<kRows, kQueries>(queries, query_stride, rows, dim, dots, dots_stride);
#endif
  }
  PlainCodeTile<T, kRows, kQueries>(queries, query_stride, rows, dim, dots, dots_stride);
}

template <typename T, size_t kQueries>
void CodeRowsForQueries(const T* queries, size_t query_stride, const CodeBlock& rows, int32_t* dots,
                        size_t dots_stride) {
  size_t i = 0;
  for (; i + kCodeTileRows <= rows.count; i += kCodeTileRows) {
    CodeTile<T, kCodeTileRows, kQueries>(queries, query_stride, rows.data + i * rows.dim, rows.dim, dots + i,
                                         dots_stride);
  }
  for (; i < rows.count; ++i) {
    CodeTile<T, 1, kQueries>(queries, query_stride, rows.data + i * rows.dim, rows.dim, dots + i, dots_stride);
  }
}

// Rows that all queries are multiplied with, one tile after the other, stay in the first-level cache: from the second
// one a tile waits for its rows as long as it computes.
constexpr size_t kCodeCacheBytes = size_t{24} << 10;

// For rows from `begin` on.
template <typename T>
void CodeDots(const CodedQueries<T>& queries, const CodeBlock& rows, int32_t* dots, size_t begin) {
  const size_t tiles = queries.count < kCodeTileQueries ? rows.count : kCodeCacheBytes / (rows.dim * kCodeTileRows);
  const size_t piece = std::max<size_t>(1, tiles) * kCodeTileRows;
  for (size_t first = begin; first < rows.count; first += piece) {
    const CodeBlock part = {rows.data + first * rows.dim, std::min(piece, rows.count - first), rows.dim};
    size_t q = 0;
    for (; q + kCodeTileQueries <= queries.count; q += kCodeTileQueries) {
      CodeRowsForQueries<T, kCodeTileQueries>(queries.data + q * queries.stride, queries.stride, part,
                                              dots + q * rows.count + first, rows.count);
    }
    for (; q < queries.count; ++q) {
      CodeRowsForQueries<T, 1>(queries.data + q * queries.stride, queries.stride, part, dots + q * rows.count + first,
                               rows.count);
    }
  }
}

void CodeDots16(const CodedQueries<int16_t>& queries, const CodeBlock& rows, int32_t* dots) {
  CodeDots(queries, rows, dots, 0);
}

void CodeDots8(const CodedQueries<int8_t>& queries, const CodeBlock& rows, int32_t* dots) {
  size_t done = 0;
#if EMBEDDING_HAVE_VNNI
  // Measured at 100 to 768 dimensions: with fewer queries, or longer rows, making panels costs more than it saves.
  if (queries.count >= 6 && queries.count * 24 >= rows.dim) done = CodeDotsByPanels(queries, rows, dots);
#endif
  CodeDots(queries, rows, dots, done);
}

// ---- Dot products with rows that lie anywhere

// One query and kRows rows, each at an address of its own.
template <typename T, size_t kRows>
HWY_INLINE void RecordTile(const T* query, const uint8_t* const (&rows)[kRows], size_t dim, int32_t* dots) {
#if HWY_TARGET != HWY_SCALAR
  const CodeI32Tag d32;
  hn::Vec<CodeI32Tag> sums[kRows];
  for (auto& sum : sums) sum = hn::Zero(d32);
  bool is_done = false;
  if constexpr (sizeof(T) == 2) {
    const CodeI16Tag d16;
    const CodeU8Half d8;
    constexpr size_t kLanes = hn::MaxLanes(CodeI16Tag());
    for (size_t j = 0; j < dim; j += kLanes) {
      const auto q = hn::LoadU(d16, query + j);
      for (size_t r = 0; r < kRows; ++r) {
        sums[r] = AddWordProducts(q, hn::PromoteTo(d16, hn::LoadU(d8, rows[r] + j)), sums[r]);
      }
    }
    is_done = true;
  } else {
#if EMBEDDING_HAVE_VNNI
    for (size_t j = 0; j < dim; j += 64) {
      const __m512i q = _mm512_loadu_si512(query + j);
      for (size_t r = 0; r < kRows; ++r) {
        sums[r] = AddByteProducts(sums[r], _mm512_loadu_si512(rows[r] + j), q);
      }
    }
    is_done = true;
#endif
  }
  if (is_done) {
    if constexpr (kRows == 4) {
      SumsOfLanes(d32, sums[0], sums[1], sums[2], sums[3], dots);
    } else {
      for (size_t r = 0; r < kRows; ++r) dots[r] = hn::GetLane(hn::SumOfLanes(d32, sums[r]));
    }
    return;
  }
#endif
  for (size_t r = 0; r < kRows; ++r) {
    int32_t sum = 0;
    for (size_t j = 0; j < dim; ++j) sum += query[j] * rows[r][j];
    dots[r] = sum;
  }
}

template <typename T>
HWY_INLINE void RecordDots(const T* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const uint8_t* const four[4] = {rows.data + ids[i] * rows.stride, rows.data + ids[i + 1] * rows.stride,
                                    rows.data + ids[i + 2] * rows.stride, rows.data + ids[i + 3] * rows.stride};
    RecordTile<T, 4>(query, four, rows.dim, dots + i);
  }
  for (; i < count; ++i) {
    const uint8_t* const one[1] = {rows.data + ids[i] * rows.stride};
    RecordTile<T, 1>(query, one, rows.dim, dots + i);
  }
}

void RecordDots16(const int16_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots) {
  RecordDots(query, rows, ids, count, dots);
}

void RecordDots8(const int8_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots) {
  RecordDots(query, rows, ids, count, dots);
}

bool FastByteDots() { return EMBEDDING_HAVE_VNNI != 0; }

// ---- Selection

size_t SelectCoded(const int32_t* dots, const CodedFacts& rows, const CodeCut& cut, uint32_t* indices) {
  const CodeF32Tag d;
  const hn::RebindToSigned<CodeF32Tag> di;
  const size_t lanes = hn::Lanes(d);
  const auto dot_scale = hn::Set(d, cut.dot_scale);
  const auto dot_offset = hn::Set(d, cut.dot_offset);
  const auto error = hn::Set(d, cut.error);
  const auto least = hn::Set(d, cut.least);
  const auto norm = hn::Set(d, cut.norm);
  const auto squared_norm = hn::Set(d, cut.squared_norm);
  size_t selected = 0;
  size_t i = 0;
  for (; i + lanes <= rows.count; i += lanes) {
    const auto dot = hn::MulAdd(hn::ConvertTo(d, hn::LoadU(di, dots + i)), dot_scale, dot_offset);
    const auto reach = hn::MulAdd(hn::LoadU(d, rows.alphas + i), dot, hn::Mul(error, hn::LoadU(d, rows.errors + i)));
    const auto n = hn::LoadU(d, rows.norms + i);
    const auto mask = hn::Ge(reach, hn::MulAdd(hn::MulAdd(squared_norm, n, norm), n, least));
    if (HWY_LIKELY(hn::AllFalse(d, mask))) continue;
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, mask, bytes);
    uint32_t bits = bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
    for (; bits != 0; bits &= bits - 1) {
      indices[selected++] = static_cast<uint32_t>(i) + static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(bits));
    }
  }
  for (; i < rows.count; ++i) {
    if (MeetsCut(cut, dots[i], rows.alphas[i], rows.errors[i], rows.norms[i])) {
      indices[selected++] = static_cast<uint32_t>(i);
    }
  }
  return selected;
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
