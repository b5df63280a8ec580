#include "server/kernels/row_pairs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/row_pairs.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/row_pairs-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(DotToRows);
HWY_EXPORT(SquaredL2ToRows);
HWY_EXPORT(DotOfPair);
HWY_EXPORT(SquaredL2OfPair);

void DotToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim, float* dots) {
  HWY_DYNAMIC_DISPATCH(DotToRows)(query, type, rows, count, dim, dots);
}

void SquaredL2ToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim,
                     float* distances) {
  HWY_DYNAMIC_DISPATCH(SquaredL2ToRows)(query, type, rows, count, dim, distances);
}

float DotOfPair(ElementType type, const void* a, const void* b, size_t dim) {
  return HWY_DYNAMIC_DISPATCH(DotOfPair)(type, a, b, dim);
}

float SquaredL2OfPair(ElementType type, const void* a, const void* b, size_t dim) {
  return HWY_DYNAMIC_DISPATCH(SquaredL2OfPair)(type, a, b, dim);
}

}  // namespace embedding
#endif  // HWY_ONCE
