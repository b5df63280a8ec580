// Rows as 8-bit codes: a quarter of the bytes of F32, whose dot products with a coded query are exact integers, and how
// far they are from the rows.
//
// A row x is coded through y_j = (x_j - mean_j) * inverse_scale_j as y_j = alpha * c_j + r_j with whole numbers c_j in
// [-127, 127]; stored is the byte c_j + 128, so that code 128 stands for 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace embedding {

// Bytes that a kernel may read behind the last code, and zeros that a coded query must have behind its last element.
constexpr size_t kCodeSlack = 64;

// What is known of one coded row.
struct CodedRow {
  float alpha = 0;      // >= 0
  float error = 0;      // at least |r|, the residual's length
  float code_norm = 0;  // at least |c|
};

// Codes num_rows rows of dim elements, unpadded. mean, inverse_scale: [dim], finite, inverse_scale > 0. codes:
// [num_rows, dim], unpadded. coded: [num_rows]. A row with elements that are not finite, or of a length above 2^61,
// gets codes and facts without meaning.
void EncodeRows(const float* rows, size_t num_rows, size_t dim, const float* mean, const float* inverse_scale,
                uint8_t* codes, CodedRow* coded);

// Rows as codes, unpadded, row i at data + i * dim; kCodeSlack bytes behind the last may be read.
struct CodeBlock {
  const uint8_t* data = nullptr;
  size_t count = 0;
  size_t dim = 0;  // >= 1
};

// Queries as whole numbers, query q at data + q * stride, with kCodeSlack zeros behind its dim elements.
template <typename T>
struct CodedQueries {
  const T* data = nullptr;
  size_t stride = 0;  // elements, >= dim + kCodeSlack
  size_t count = 0;
};

// dots[q * rows.count + i] = sum_j query_q[j] * byte_i[j], exactly, where 255 * sum_j |query_q[j]| < 2^31. Bytes are
// the codes + 128, so the dot product with the codes is this less 128 * sum_j query_q[j].
void CodeDotManyToMany(const CodedQueries<int16_t>& queries, const CodeBlock& rows, int32_t* dots);

// The same for queries of 8 bits, where the machine multiplies bytes four at a time (VNNI); elsewhere slower than 16
// bits, which say more.
void CodeDotManyToMany(const CodedQueries<int8_t>& queries, const CodeBlock& rows, int32_t* dots);

// Rows of codes that lie at equal distances, of which any may be asked for: row i at data + i * stride.
struct CodeRecords {
  const uint8_t* data = nullptr;
  size_t stride = 0;  // bytes; of each row dim rounded up to kCodeSlack may be read, whatever lies there
  size_t dim = 0;     // >= 1
};

// dots[i] = sum_j query[j] * byte_j of row ids[i], exactly, i in [0, count). query: [dim], with kCodeSlack zeros
// behind.
void CodeDotToRecords(const int16_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots);
void CodeDotToRecords(const int8_t* query, const CodeRecords& rows, const uint32_t* ids, size_t count, int32_t* dots);

// Whether queries of 8 bits are multiplied faster than those of 16 bits on this machine.
bool HasFastByteDots();

// A test on rows, for MeetsCut and SelectCoded.
struct CodeCut {
  float dot_scale = 0;   // of a dot product
  float dot_offset = 0;  // added to the scaled dot product, before alpha
  float error = 0;       // of the row's error
  float least = 0;
  float norm = 0;          // of the row's norm
  float squared_norm = 0;  // of its square
};

// Whether
//   alpha * (dot_scale * dot + dot_offset) + error * row_error >= least + norm * row_norm + squared_norm * row_norm^2
// in float32, each operation rounded or fused with the next. NaN on either side does not.
inline bool MeetsCut(const CodeCut& cut, int32_t dot, float alpha, float row_error, float row_norm) {
  const float reach = alpha * (cut.dot_scale * static_cast<float>(dot) + cut.dot_offset) + cut.error * row_error;
  return reach >= cut.least + (cut.squared_norm * row_norm + cut.norm) * row_norm;
}

// Facts of rows for SelectCoded, each [count].
struct CodedFacts {
  const float* alphas = nullptr;
  const float* errors = nullptr;
  const float* norms = nullptr;
  size_t count = 0;
};

// Writes to `indices`, ascending, each i in [0, count) whose row meets the cut, and returns how many. indices: [count].
size_t SelectCoded(const int32_t* dots, const CodedFacts& rows, const CodeCut& cut, uint32_t* indices);

}  // namespace embedding
