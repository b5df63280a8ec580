// Dot products of many 8-bit queries with the codes of rows where VNNI multiplies bytes, per SIMD target. Included by
// codes-inl.h, which says when.
//
// The instruction adds four products of bytes to each of 16 sums. With a row's bytes in one vector, the 16 sums of each
// row and query have to be added up in the end, which takes as long as the products themselves where rows are short. So
// 16 rows are laid side by side first (a panel): four bytes of each row make a vector, four bytes of a query are
// broadcast, and each sum belongs to one row. Making a panel costs four shuffles for each vector of codes, once for all
// queries.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "server/kernels/codes.h"

#if defined(EMBEDDING_SERVER_KERNELS_CODE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_CODE_PANELS_INL_H_
#undef EMBEDDING_SERVER_KERNELS_CODE_PANELS_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_CODE_PANELS_INL_H_
#endif

// The instruction that multiplies 64 pairs of bytes and adds them up by fours.
#undef EMBEDDING_HAVE_VNNI
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
#define EMBEDDING_HAVE_VNNI 1
#else
#define EMBEDDING_HAVE_VNNI 0
#endif

#if EMBEDDING_HAVE_VNNI
HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

constexpr size_t kPanelRows = 16;
// Panels multiplied together: each broadcast of a query serves all of them.
constexpr size_t kPanels = 2;
// Sums of a tile, kPanels for each query, must fit the registers, and hide the five cycles that each addition takes.
constexpr size_t kPanelQueries = 8;
// Longer rows take several turns: so many bytes of kPanels panels stay in the first-level cache (32 KiB).
constexpr size_t kPanelBytes = 1024;
constexpr size_t kPanelPrefetchBytes = 4096;

// sum plus, in each lane, four products of an unsigned and a signed byte. Written as assembly, because Highway 1.0.3
// detects this target by AVX512-VNNI but compiles it without.
HWY_INLINE __m512i AddByteProducts(__m512i sum, __m512i bytes, __m512i signed_bytes) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
  return sum;
}

// Lays bytes [0, 64) of 16 rows side by side: vector v of the panel, at to + v * step, holds bytes [4v, 4v + 4) of row
// r in lane r.
HWY_INLINE void FillPanel(const uint8_t* rows, size_t dim, uint8_t* to, size_t step) {
  // Blocks of four rows and four times four bytes within each quarter of the vectors.
  __m512i quarters[4][4];
  for (size_t group = 0; group < 4; ++group) {
    __m512i x[4];
    for (size_t r = 0; r < 4; ++r) {
      const uint8_t* row = rows + (4 * group + r) * dim;
      hwy::Prefetch(row + kPanelPrefetchBytes);
      x[r] = _mm512_loadu_si512(row);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(x[0], x[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(x[0], x[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(x[2], x[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(x[2], x[3]);
    quarters[group][0] = _mm512_unpacklo_epi64(low01, low23);
    quarters[group][1] = _mm512_unpackhi_epi64(low01, low23);
    quarters[group][2] = _mm512_unpacklo_epi64(high01, high23);
    quarters[group][3] = _mm512_unpackhi_epi64(high01, high23);
  }
  // Then the quarters: quarter b of quarters[group][k] belongs to vector 4b + k.
  for (size_t k = 0; k < 4; ++k) {
    const __m512i even01 = _mm512_shuffle_i32x4(quarters[0][k], quarters[1][k], 0x88);
    const __m512i odd01 = _mm512_shuffle_i32x4(quarters[0][k], quarters[1][k], 0xdd);
    const __m512i even23 = _mm512_shuffle_i32x4(quarters[2][k], quarters[3][k], 0x88);
    const __m512i odd23 = _mm512_shuffle_i32x4(quarters[2][k], quarters[3][k], 0xdd);
    _mm512_store_si512(to + k * step, _mm512_shuffle_i32x4(even01, even23, 0x88));
    _mm512_store_si512(to + (4 + k) * step, _mm512_shuffle_i32x4(odd01, odd23, 0x88));
    _mm512_store_si512(to + (8 + k) * step, _mm512_shuffle_i32x4(even01, even23, 0xdd));
    _mm512_store_si512(to + (12 + k) * step, _mm512_shuffle_i32x4(odd01, odd23, 0xdd));
  }
}

// Adds to dots[c][i] the products of query c with row i of num_panels panels, or sets it. panels: [steps, num_panels,
// 64].
template <size_t num_panels, size_t num_queries>
HWY_INLINE void PanelTile(const int8_t* const* queries, const uint8_t* panels, size_t steps, bool adds,
                          int32_t* const* dots) {
  __m512i sums[num_queries][num_panels];
  for (size_t c = 0; c < num_queries; ++c) {
    for (size_t p = 0; p < num_panels; ++p) {
      sums[c][p] = adds ? _mm512_loadu_si512(dots[c] + p * kPanelRows) : _mm512_setzero_si512();
    }
  }
  for (size_t s = 0; s < steps; ++s) {
    __m512i rows[num_panels];
    for (size_t p = 0; p < num_panels; ++p) rows[p] = _mm512_load_si512(panels + (s * num_panels + p) * 64);
    for (size_t c = 0; c < num_queries; ++c) {
      int32_t bytes;
      std::memcpy(&bytes, queries[c] + 4 * s, sizeof(bytes));
      const __m512i query = _mm512_set1_epi32(bytes);
      for (size_t p = 0; p < num_panels; ++p) sums[c][p] = AddByteProducts(sums[c][p], rows[p], query);
    }
  }
  for (size_t c = 0; c < num_queries; ++c) {
    for (size_t p = 0; p < num_panels; ++p) _mm512_storeu_si512(dots[c] + p * kPanelRows, sums[c][p]);
  }
}

template <size_t num_panels, size_t num_queries>
HWY_INLINE void PanelTiles(const CodedQueries<int8_t>& queries, size_t first_query, size_t first_byte,
                           const uint8_t* panels, size_t steps, int32_t* dots, size_t dots_stride) {
  const int8_t* of_query[num_queries];
  int32_t* to[num_queries];
  for (size_t c = 0; c < num_queries; ++c) {
    // Beyond the last query it is the last one again, with the same result.
    const size_t q = std::min(first_query + c, queries.count - 1);
    of_query[c] = queries.data + q * queries.stride + first_byte;
    to[c] = dots + q * dots_stride;
  }
  PanelTile<num_panels, num_queries>(of_query, panels, steps, first_byte > 0, to);
}

// dots of num_panels * kPanelRows rows, the first of them at rows.data: dots[q * dots_stride + i].
template <size_t num_panels>
HWY_NOINLINE void PanelDots(const CodedQueries<int8_t>& queries, const uint8_t* rows, size_t dim, int32_t* dots,
                            size_t dots_stride) {
  alignas(64) uint8_t panels[num_panels * kPanelRows * kPanelBytes];
  for (size_t first = 0; first < dim; first += kPanelBytes) {
    const size_t size = std::min(kPanelBytes, dim - first);
    for (size_t p = 0; p < num_panels; ++p) {
      // What is read behind a row's end is multiplied with the zeros behind the query's.
      for (size_t j = 0; j < size; j += 64) {
        FillPanel(rows + p * kPanelRows * dim + first + j, dim, panels + (j / 4 * num_panels + p) * 64,
                  num_panels * 64);
      }
    }
    const size_t steps = (size + 3) / 4;
    size_t q = 0;
    for (; q + kPanelQueries / 2 < queries.count; q += kPanelQueries) {
      PanelTiles<num_panels, kPanelQueries>(queries, q, first, panels, steps, dots, dots_stride);
    }
    if (q < queries.count) {
      PanelTiles<num_panels, kPanelQueries / 2>(queries, q, first, panels, steps, dots, dots_stride);
    }
  }
}

// As CodeDotManyToMany for the first rows, as many as fill panels, and returns how many.
HWY_INLINE size_t CodeDotsByPanels(const CodedQueries<int8_t>& queries, const CodeBlock& rows, int32_t* dots) {
  size_t i = 0;
  for (; i + kPanels * kPanelRows <= rows.count; i += kPanels * kPanelRows) {
    PanelDots<kPanels>(queries, rows.data + i * rows.dim, rows.dim, dots + i, rows.count);
  }
  for (; i + kPanelRows <= rows.count; i += kPanelRows) {
    PanelDots<1>(queries, rows.data + i * rows.dim, rows.dim, dots + i, rows.count);
  }
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();
#endif  // EMBEDDING_HAVE_VNNI

#endif  // per-target guard
