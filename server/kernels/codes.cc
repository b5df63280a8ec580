#include "server/kernels/codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/kernels/codes.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "server/kernels/codes-inl.h"

#if HWY_ONCE
namespace embedding {

HWY_EXPORT(EncodeRows);
HWY_EXPORT(CodeDots16);
HWY_EXPORT(CodeDots8);
HWY_EXPORT(RecordDots16);
HWY_EXPORT(RecordDots8);
HWY_EXPORT(FastByteDots);
HWY_EXPORT(SelectCoded);

void EncodeRows(const float* rows, size_t num_rows, size_t dim, const float* mean, const float* inverse_scale,
                uint8_t* codes, CodedRow* coded) {
  HWY_DYNAMIC_DISPATCH(EncodeRows)(rows, num_rows, dim, mean, inverse_scale, codes, coded);
}

void CodeDotManyToMany(const CodedQueries<int16_t>& queries, const CodeBlock& rows, int32_t* dots) {
  HWY_DYNAMIC_DISPATCH(CodeDots16)(queries, rows, dots);
}

void CodeDotManyToMany(const CodedQueries<int8_t>& queries, const CodeBlock& rows, int32_t* dots) {
  HWY_DYNAMIC_DISPATCH(CodeDots8)(queries, rows, dots);
}

void CodeDotToRecords(const int16_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots) {
  HWY_DYNAMIC_DISPATCH(RecordDots16)(query, rows, ids, count, dots);
}

void CodeDotToRecords(const int8_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots) {
  HWY_DYNAMIC_DISPATCH(RecordDots8)(query, rows, ids, count, dots);
}

bool HasFastByteDots() { return HWY_DYNAMIC_DISPATCH(FastByteDots)(); }

size_t SelectCoded(const int32_t* dots, const CodedFacts& rows, const CodeCut& cut, uint32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(SelectCoded)(dots, rows, cut, indices);
}

}  // namespace embedding
#endif  // HWY_ONCE
