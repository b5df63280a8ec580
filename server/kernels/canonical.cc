#include "server/kernels/canonical.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/canonical.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/canonical-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(WidenToF64);
HWY_EXPORT(CanonicalDotOneToMany);
HWY_EXPORT(CanonicalSquaredL2OneToMany);
HWY_EXPORT(CanonicalSquaredNorms);

void WidenToF64(ElementType type, const void* from, size_t count, double* to) {
  HWY_DYNAMIC_DISPATCH(WidenToF64)(type, from, count, to);
}

void CanonicalDotOneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows, size_t dim,
                           double* dots) {
  HWY_DYNAMIC_DISPATCH(CanonicalDotOneToMany)(query, type, rows, num_rows, dim, dots);
}

void CanonicalSquaredL2OneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows,
                                 size_t dim, double* sums) {
  HWY_DYNAMIC_DISPATCH(CanonicalSquaredL2OneToMany)(query, type, rows, num_rows, dim, sums);
}

void CanonicalSquaredNorms(ElementType type, const void* const* rows, size_t num_rows, size_t dim, double* norms) {
  HWY_DYNAMIC_DISPATCH(CanonicalSquaredNorms)(type, rows, num_rows, dim, norms);
}

}  // namespace embedding
#endif  // HWY_ONCE
