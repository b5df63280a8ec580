// Float32 closeness (candidates.h), per SIMD target.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "server/kernels/candidates.h"
#include "server/kernels/elements-inl.h"
#include "server/kernels/sums-inl.h"

#if defined(EMBEDDING_SERVER_KERNELS_CANDIDATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_CANDIDATES_INL_H_
#undef EMBEDDING_SERVER_KERNELS_CANDIDATES_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_CANDIDATES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

using F32Tag = hn::CappedTag<float, 16>;
using F32Vec = hn::Vec<F32Tag>;
constexpr size_t kF32Lanes = hn::MaxLanes(F32Tag());

// Rows and queries of a tile: its accumulators and one vector of each query and row must fit the registers, 32 of them
// with AVX-512, else 16.
constexpr size_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr size_t kTileQueries = 4;

enum class Closeness { kDot, kNegativeSquaredL2 };

template <Closeness kCloseness>
HWY_INLINE F32Vec Accumulate(F32Vec q, F32Vec x, F32Vec sum) {
  if constexpr (kCloseness == Closeness::kDot) {
    return hn::MulAdd(q, x, sum);
  } else {
    const F32Vec difference = hn::Sub(q, x);
    return hn::NegMulAdd(difference, difference, sum);
  }
}

// The last, incomplete vector of a row. It is read so that it ends with the row (overlapping what was added before)
// where the row is long enough, else from a copy padded with zeros: nothing outside of the row is ever read.
struct Tail {
  size_t at;                        // element where the vector starts; rows shorter than a vector: 0
  bool is_short;                    // the row is shorter than a vector
  float queries[kTileQueries][16];  // the queries' elements, zeros in overlapping or padding lanes
  float keep[16];                   // 1 in lanes that count, else 0
};

constexpr size_t kLineBytes = 64;

// Asks for the cache line that holds rows[at], once per line; harmless past the end of the table. Measured on a
// Sapphire Rapids with 50,257 x 768 in memory, processor time against a plain read: one query 1.22 -> 1.01 (F16 1.73
// -> 1.15), four 1.42 -> 0.94 (F16 2.43 -> 1.20): without it, arithmetic and waiting add up. GCC keeps every one of
// them here.
HWY_INLINE void PrefetchLine(const uint8_t* rows, size_t at, size_t step) {
  if (step >= kLineBytes || at % kLineBytes < step) hwy::Prefetch(rows + at);
}
// How far ahead one stream is asked for: 1 KiB is too late, 2 KiB not quite early enough.
constexpr size_t kPrefetchBytes = 4096;

// kUnroll accumulators for each pair of row and query hide the latency of the adder where a tile has few pairs.
template <ElementType kType, Closeness kCloseness, size_t kRows, size_t kQueries, size_t kUnroll>
HWY_INLINE void Tile(const float* queries, size_t query_stride, const uint8_t* rows, size_t dim, const Tail& tail,
                     float* closeness, size_t closeness_stride) {
  constexpr size_t kSize = ElementSize(kType);
  const F32Tag d;
  const size_t row_bytes = dim * kSize;
  F32Vec sums[kRows][kQueries][kUnroll];
  for (auto& of_row : sums) {
    for (auto& of_pair : of_row) {
      for (F32Vec& sum : of_pair) sum = hn::Zero(d);
    }
  }
  size_t j = 0;
  for (; j + kUnroll * kF32Lanes <= dim; j += kUnroll * kF32Lanes) {
    for (size_t u = 0; u < kUnroll; ++u) {
      const size_t at = j + u * kF32Lanes;
      if constexpr (kQueries == 1) PrefetchLine(rows + kPrefetchBytes, at * kSize, kF32Lanes * kSize);
      F32Vec q[kQueries];
      for (size_t c = 0; c < kQueries; ++c) q[c] = hn::LoadU(d, queries + c * query_stride + at);
      for (size_t r = 0; r < kRows; ++r) {
        // Where this row's successor in the next tile lies.
        if constexpr (kQueries > 1) PrefetchLine(rows + (r + kRows) * row_bytes, at * kSize, kF32Lanes * kSize);
        const F32Vec x = LoadF32<kType>(d, rows + r * row_bytes + at * kSize);
        for (size_t c = 0; c < kQueries; ++c) sums[r][c][u] = Accumulate<kCloseness>(q[c], x, sums[r][c][u]);
      }
    }
  }
  if constexpr (kUnroll > 1) {
    for (; j + kF32Lanes <= dim; j += kF32Lanes) {
      for (size_t r = 0; r < kRows; ++r) {
        const F32Vec x = LoadF32<kType>(d, rows + r * row_bytes + j * kSize);
        for (size_t c = 0; c < kQueries; ++c) {
          sums[r][c][0] = Accumulate<kCloseness>(hn::LoadU(d, queries + c * query_stride + j), x, sums[r][c][0]);
        }
      }
    }
  }
  if (j < dim) {
    const F32Vec keep = hn::LoadU(d, tail.keep);
    for (size_t r = 0; r < kRows; ++r) {
      uint8_t padded[kF32Lanes * kSize] = {};
      const uint8_t* last = rows + r * row_bytes + tail.at * kSize;
      if (tail.is_short) {
        std::memcpy(padded, last, row_bytes);
        last = padded;
      }
      // Lanes that do not count hold a zero in the query; for distances the row's lane is made zero, too.
      F32Vec x = LoadF32<kType>(d, last);
      if constexpr (kCloseness == Closeness::kNegativeSquaredL2) x = hn::Mul(x, keep);
      for (size_t c = 0; c < kQueries; ++c) {
        sums[r][c][0] = Accumulate<kCloseness>(hn::LoadU(d, tail.queries[c]), x, sums[r][c][0]);
      }
    }
  }
  static_assert(kUnroll == 1 || kUnroll == 4);
  if constexpr (kUnroll == 4) {
    for (auto& of_row : sums) {
      for (auto& of_pair : of_row) {
        of_pair[0] = hn::Add(hn::Add(of_pair[0], of_pair[1]), hn::Add(of_pair[2], of_pair[3]));
      }
    }
  }
  if constexpr (kRows == 4) {
    for (size_t c = 0; c < kQueries; ++c) {
      SumsOfLanes(F32Tag(), sums[0][c][0], sums[1][c][0], sums[2][c][0], sums[3][c][0],
                  closeness + c * closeness_stride);
    }
  } else if constexpr (kQueries == 4) {
    for (size_t r = 0; r < kRows; ++r) {
      float of_row[4];
      SumsOfLanes(F32Tag(), sums[r][0][0], sums[r][1][0], sums[r][2][0], sums[r][3][0], of_row);
      for (size_t c = 0; c < kQueries; ++c) closeness[c * closeness_stride + r] = of_row[c];
    }
  } else {
    static_assert(kRows == 1 && kQueries == 1);
    closeness[0] = hn::GetLane(hn::SumOfLanes(d, sums[0][0][0]));
  }
}

template <ElementType kType, Closeness kCloseness, size_t kQueries>
void RowsForQueries(const float* queries, size_t query_stride, const RowBlock& rows, float* closeness) {
  const size_t dim = rows.dim;
  Tail tail = {};
  const size_t rest = dim % kF32Lanes;
  if (rest > 0) {
    tail.is_short = dim < kF32Lanes;
    tail.at = tail.is_short ? 0 : dim - kF32Lanes;
    const size_t first = tail.is_short ? 0 : kF32Lanes - rest;
    for (size_t i = 0; i < rest; ++i) {
      tail.keep[first + i] = 1;
      for (size_t c = 0; c < kQueries; ++c) tail.queries[c][first + i] = queries[c * query_stride + dim - rest + i];
    }
  }
  const auto* bytes = static_cast<const uint8_t*>(rows.data);
  const size_t row_bytes = dim * ElementSize(kType);
  size_t i = 0;
  if constexpr (kQueries > 1) {
    for (; i + kTileRows <= rows.count; i += kTileRows) {
      Tile<kType, kCloseness, kTileRows, kQueries, 1>(queries, query_stride, bytes + i * row_bytes, dim, tail,
                                                      closeness + i, rows.count);
    }
  }
  // One query: the table is read in one stream, as memory likes it best.
  for (; i < rows.count; ++i) {
    Tile<kType, kCloseness, 1, kQueries, kQueries == 1 ? 4 : 1>(queries, query_stride, bytes + i * row_bytes, dim, tail,
                                                                closeness + i, rows.count);
  }
}

template <ElementType kType, Closeness kCloseness>
void ManyToManyOfType(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  size_t q = 0;
  for (; q + kTileQueries <= queries.count; q += kTileQueries) {
    RowsForQueries<kType, kCloseness, kTileQueries>(queries.data + q * queries.stride, queries.stride, rows,
                                                    closeness + q * rows.count);
  }
  for (; q < queries.count; ++q) {
    RowsForQueries<kType, kCloseness, 1>(queries.data + q * queries.stride, queries.stride, rows,
                                         closeness + q * rows.count);
  }
}

template <Closeness kCloseness>
void ManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  switch (rows.type) {
    case ElementType::kF32:
      return ManyToManyOfType<ElementType::kF32, kCloseness>(queries, rows, closeness);
    case ElementType::kF16:
      return ManyToManyOfType<ElementType::kF16, kCloseness>(queries, rows, closeness);
    case ElementType::kBF16:
      return ManyToManyOfType<ElementType::kBF16, kCloseness>(queries, rows, closeness);
    case ElementType::kI8:
      return ManyToManyOfType<ElementType::kI8, kCloseness>(queries, rows, closeness);
    case ElementType::kU8:
      return ManyToManyOfType<ElementType::kU8, kCloseness>(queries, rows, closeness);
    case ElementType::kF8E4M3:
      return ManyToManyOfType<ElementType::kF8E4M3, kCloseness>(queries, rows, closeness);
    case ElementType::kF8E5M2:
      return ManyToManyOfType<ElementType::kF8E5M2, kCloseness>(queries, rows, closeness);
    case ElementType::kF64:
      HWY_ABORT("rows of doubles have no float32 closeness");
  }
}

void DotManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  ManyToMany<Closeness::kDot>(queries, rows, closeness);
}

void NegativeSquaredL2ManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  ManyToMany<Closeness::kNegativeSquaredL2>(queries, rows, closeness);
}

size_t SelectAtLeast(const float* closeness, const float* norms, size_t count, float a, float b, uint32_t* indices) {
  const F32Tag d;
  const F32Vec va = hn::Set(d, a);
  const F32Vec vb = hn::Set(d, b);
  size_t selected = 0;
  size_t i = 0;
  for (; i + kF32Lanes <= count; i += kF32Lanes) {
    const F32Vec least = hn::Add(va, hn::Mul(vb, hn::LoadU(d, norms + i)));
    const auto mask = hn::Ge(hn::LoadU(d, closeness + i), least);
    if (HWY_LIKELY(hn::AllFalse(d, mask))) continue;
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, mask, bytes);
    uint32_t bits = bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
    for (; bits != 0; bits &= bits - 1) {
      indices[selected++] = static_cast<uint32_t>(i) + static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(bits));
    }
  }
  for (; i < count; ++i) {
    if (closeness[i] >= a + b * norms[i]) indices[selected++] = static_cast<uint32_t>(i);
  }
  return selected;
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
