// Who wants to see the rows of a table while they are loaded and in the cache anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "server/table/dtype.h"

namespace embedding {

// What is seen may yet be refused: only when the load has ended well are these the rows of the table.
class RowObserver {
 public:
  struct Shape {
    Dtype dtype = Dtype::kF32;  // in memory: any but F64
    int64_t num_rows = 0;
    int64_t dim = 0;
  };

  // Gives one row before its turn, as it will be in memory: to: [dim] of dtype. row in [0, num_rows). For the thread
  // that Begin is called on, and until it returns. The errors of LoadRows.
  using ReadRow = std::function<absl::Status(int64_t row, std::byte* to)>;

  RowObserver() = default;
  RowObserver(const RowObserver&) = delete;
  RowObserver& operator=(const RowObserver&) = delete;
  virtual ~RowObserver() = default;

  // Once, before Add.
  virtual void Begin(const Shape& shape, const ReadRow& read) = 0;
  // Rows [first_row, first_row + num_rows), unpadded; every row once, in any order, from several threads at a time.
  virtual void Add(const std::byte* rows, int64_t first_row, int64_t num_rows) = 0;
};

}  // namespace embedding
