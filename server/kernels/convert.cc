#include "server/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/convert.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/convert-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(WidenToF32);
HWY_EXPORT(NarrowFromF32);
HWY_EXPORT(NarrowF64ToF32);
HWY_EXPORT(ScanRows);

void WidenToF32(ElementType type, const void* from, size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenToF32)(type, from, count, to);
}

size_t NarrowFromF32(const float* from, size_t count, ElementType type, void* to) {
  return HWY_DYNAMIC_DISPATCH(NarrowFromF32)(from, count, type, to);
}

size_t NarrowF64ToF32(const double* from, size_t count, float* to) {
  return HWY_DYNAMIC_DISPATCH(NarrowF64ToF32)(from, count, to);
}

RowScan ScanRows(ElementType type, const void* rows, size_t num_rows, size_t dim, uint8_t* non_finite) {
  return HWY_DYNAMIC_DISPATCH(ScanRows)(type, rows, num_rows, dim, non_finite);
}

}  // namespace embedding
#endif  // HWY_ONCE
