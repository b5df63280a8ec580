// Rows of an answer that stay where they are: the transport sends them straight from the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/service/admission.h"
#include "server/service/snapshot.h"

namespace embedding {

// An answer whose pieces (rows, or rows one behind the other) are so long on average is referenced, any other copied.
//
// A copy costs a pass over bytes that the kernel then finds in the cache; a piece some 0.2 us in the library, and the
// kernel's copy takes the cache misses instead. Of 64 or 256 random F32 rows a call, references against copies,
// server's CPU: rows of 3 KiB 1.06 to 1.18, 4 KiB 0.95 to 1.03, 8 KiB 0.82 to 0.90, 16 KiB 0.70 to 0.76 (Intel Xeon
// with AVX-512, gRPC 1.51.1, loopback). Prefetching the rows changed none of it.
inline constexpr size_t kReferencedPieceBytes = 8192;

// How many pieces the first row_bytes bytes of the rows that ids names are; see ReferToRows.
size_t CountPieces(const EmbeddingTable& table, std::span<const int64_t> ids, size_t row_bytes);

// The bytes `head`, then the first row_bytes bytes of each row that ids names, then the bytes `tail`. Ids below zero
// are left out; rows that lie one behind the other become one piece, if they are whole. Nothing of the rows is copied:
// the snapshot and the ticket are held until the transport has let go of the last of them, be it that all have left or
// that the caller has gone. So a version that a reload has replaced stays in memory as long as a caller does not read.
//
// snapshot: not null. ids: each below num_rows, one of them at least not negative. row_bytes: in [1, row_bytes() of the
// table]; the library copies pieces of less than 24 bytes. tail: may be empty. Thread-safe.
grpc::ByteBuffer ReferToRows(SnapshotPtr snapshot, Admission::Ticket ticket, grpc::Slice head,
                             std::span<const int64_t> ids, size_t row_bytes, grpc::Slice tail);

}  // namespace embedding
