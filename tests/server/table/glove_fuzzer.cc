// Feeds text to the reader of GloVe and word2vec text: small chunks on two threads and one chunk must give the same
// answer. The first byte sets the options. The seed corpus lies in corpus/glove.
#include <cstdint>
#include <cstring>

#include "server/table/glove.h"
#include "tests/server/table/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  static WorkerPool* const pool = new WorkerPool(2);
  if (size == 0) return 0;
  const unsigned bits = data[0];
  TextRowsOptions options = {
      .has_header = (bits & 1) != 0, .keys = {.skip_invalid = (bits & 2) != 0}, .allow_non_finite = (bits & 4) != 0};
  const SourceFile file = FuzzFile(reinterpret_cast<const char*>(data) + 1, size - 1);
  const absl::StatusOr<KeyedRows> whole = ReadTextRows(file, options, *pool, {});
  options.chunk_bytes = 1 + bits / 8;
  const absl::StatusOr<KeyedRows> parts = ReadTextRows(file, options, *pool, {});
  if (whole.status() != parts.status()) abort();
  if (!whole.ok()) return 0;
  if (whole->num_rows != parts->num_rows || whole->dim != parts->dim || whole->keys != parts->keys ||
      whole->key_ends != parts->key_ends) {
    abort();
  }
  const size_t bytes = static_cast<size_t>(whole->num_rows * whole->dim) * sizeof(float);
  if (bytes > 2 * size || std::memcmp(whole->rows.get(), parts->rows.get(), bytes) != 0) abort();
  return 0;
}
