#include "tests/server/search/wide_read.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/server/search/wide_read.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace embedding::testing {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t SumWords(const void* data, size_t size) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto* words = static_cast<const uint64_t*>(data);
  const size_t count = size / sizeof(uint64_t);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, hn::LoadU(d, words + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, words + i + lanes));
    sum2 = hn::Add(sum2, hn::LoadU(d, words + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::LoadU(d, words + i + 3 * lanes));
  }
  uint64_t sums[8];
  hn::StoreU(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), d, sums);
  uint64_t sum = 0;
  for (size_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  for (; i < count; ++i) sum += words[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding::testing
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embedding::testing {

HWY_EXPORT(SumWords);

uint64_t SumWords(const void* data, size_t size) { return HWY_DYNAMIC_DISPATCH(SumWords)(data, size); }

}  // namespace embedding::testing
#endif  // HWY_ONCE
