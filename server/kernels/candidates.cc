#include "server/kernels/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/candidates.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/candidates-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(DotManyToMany);
HWY_EXPORT(NegativeSquaredL2ManyToMany);
HWY_EXPORT(SelectAtLeast);

void DotManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  HWY_DYNAMIC_DISPATCH(DotManyToMany)(queries, rows, closeness);
}

void NegativeSquaredL2ManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness) {
  HWY_DYNAMIC_DISPATCH(NegativeSquaredL2ManyToMany)(queries, rows, closeness);
}

size_t SelectAtLeast(const float* closeness, const float* norms, size_t count, float a, float b, uint32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(SelectAtLeast)(closeness, norms, count, a, b, indices);
}

}  // namespace embedding
#endif  // HWY_ONCE
