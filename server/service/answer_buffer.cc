#include "server/service/answer_buffer.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace embedding {

// Stands in front of the answer's bytes, in the same allocation.
struct AnswerBuffer::Block {
  Admission::Ticket ticket;
};

void AnswerBuffer::FreeBlock::operator()(Block* block) const {
  block->~Block();
  std::free(block);
}

AnswerBuffer::AnswerBuffer(size_t size, Admission::Ticket ticket, size_t aligned_offset) : size_(size) {
  constexpr size_t kAlignment = 64;
  void* const memory = std::malloc(sizeof(Block) + kAlignment + size);
  if (memory == nullptr) throw std::bad_alloc();
  block_.reset(new (memory) Block{std::move(ticket)});
  uint8_t* const first = static_cast<uint8_t*>(memory) + sizeof(Block);
  const size_t past_boundary = (reinterpret_cast<uintptr_t>(first) + aligned_offset) % kAlignment;
  data_ = first + (past_boundary == 0 ? 0 : kAlignment - past_boundary);
}

grpc::ByteBuffer AnswerBuffer::TakeBytes() {
  const grpc::Slice slice(
      data_, size_, [](void* block) { FreeBlock()(static_cast<Block*>(block)); }, block_.release());
  data_ = nullptr;
  size_ = 0;
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace embedding
