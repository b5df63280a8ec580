#include "server/service/row_references.h"

#include <cassert>
#include <utility>
#include <vector>

namespace embedding {
namespace {

// What all pieces of one answer hold together.
struct Held {
  SnapshotPtr snapshot;
  Admission::Ticket ticket;
};

// Calls visit(first row of the piece, bytes of it), in order.
template <typename Visitor>
void ForEachPiece(const EmbeddingTable& table, std::span<const int64_t> ids, size_t row_bytes, const Visitor& visit) {
  const bool whole = row_bytes == table.row_bytes();
  for (size_t i = 0; i < ids.size();) {
    assert(ids[i] < table.num_rows());
    size_t run = 1;
    if (ids[i] >= 0) {
      while (whole && i + run < ids.size() && ids[i + run] == ids[i] + static_cast<int64_t>(run)) ++run;
      visit(ids[i], run * row_bytes);
    }
    i += run;
  }
}

}  // namespace

size_t CountPieces(const EmbeddingTable& table, std::span<const int64_t> ids, size_t row_bytes) {
  size_t count = 0;
  ForEachPiece(table, ids, row_bytes, [&](int64_t, size_t) { ++count; });
  return count;
}

grpc::ByteBuffer ReferToRows(SnapshotPtr snapshot, Admission::Ticket ticket, grpc::Slice head,
                             std::span<const int64_t> ids, size_t row_bytes, grpc::Slice tail) {
  const EmbeddingTable& table = *snapshot->table;
  // One count of references for the whole answer, over all rows of the table: each piece is a part of this slice, so
  // none needs an allocation, and the threads that send other answers do not touch the count.
  auto* const held = new Held{std::move(snapshot), std::move(ticket)};
  const grpc::Slice rows(
      const_cast<std::byte*>(table.rows()), static_cast<size_t>(table.size_bytes()),
      [](void* last) { delete static_cast<Held*>(last); }, held);
  std::vector<grpc::Slice> pieces;
  pieces.reserve(CountPieces(table, ids, row_bytes) + 2);
  pieces.push_back(std::move(head));
  ForEachPiece(table, ids, row_bytes, [&](int64_t row, size_t bytes) {
    const size_t begin = static_cast<size_t>(row) * table.row_bytes();
    pieces.push_back(rows.sub(begin, begin + bytes));
  });
  if (tail.size() != 0) pieces.push_back(std::move(tail));
  return grpc::ByteBuffer(pieces.data(), pieces.size());
}

}  // namespace embedding
