#include "server/kernels/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/pooling.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/pooling-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(AddScaled);
HWY_EXPORT(KeepMaxima);
HWY_EXPORT(DivideAll);
HWY_EXPORT(DivideAllF32);

void AddScaled(const float* row, size_t count, double weight, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(row, count, weight, sums);
}

void KeepMaxima(const float* row, size_t count, float* maxima) { HWY_DYNAMIC_DISPATCH(KeepMaxima)(row, count, maxima); }

void DivideAll(size_t count, double divisor, double* values) {
  HWY_DYNAMIC_DISPATCH(DivideAll)(count, divisor, values);
}

void DivideAllF32(size_t count, double divisor, float* values) {
  HWY_DYNAMIC_DISPATCH(DivideAllF32)(count, divisor, values);
}

}  // namespace embedding
#endif  // HWY_ONCE
