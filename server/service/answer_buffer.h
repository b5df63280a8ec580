// The memory of one answer, from its first byte to the socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "grpcpp/support/byte_buffer.h"
#include "server/service/admission.h"

namespace embedding {

// Allocates the answer once, lets it be written in place and hands it over as one slice without a copy. The ticket is
// given back when the last byte has left or the caller has gone, whichever way the slice ends.
class AnswerBuffer {
 public:
  AnswerBuffer() = default;
  // size: exact bytes of the answer, >= 1. The byte at `aligned_offset` lies on a 64-byte boundary, so that arithmetic
  // can write its results there.
  AnswerBuffer(size_t size, Admission::Ticket ticket, size_t aligned_offset = 0);
  AnswerBuffer(AnswerBuffer&&) = default;
  AnswerBuffer& operator=(AnswerBuffer&&) = default;

  size_t size() const { return size_; }
  // [size], not initialised.
  uint8_t* data() { return data_; }

  // Empties this object.
  grpc::ByteBuffer TakeBytes();

 private:
  struct Block;
  struct FreeBlock {
    void operator()(Block* block) const;
  };

  size_t size_ = 0;
  uint8_t* data_ = nullptr;
  std::unique_ptr<Block, FreeBlock> block_;
};

}  // namespace embedding
