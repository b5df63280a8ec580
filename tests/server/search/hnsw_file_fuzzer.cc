// Feeds the bytes of a graph's file to its reader, under a good header and a good checksum, so that what they say is
// looked at: an entry, levels and lists of links for a table of four rows.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/search/hnsw_file.h"
#include "server/table/fingerprint.h"

namespace {

using namespace embedding;

constexpr uint32_t kM = 2;
constexpr uint32_t kEfConstruction = 10;
constexpr uint64_t kNumRows = 4;

template <typename T>
void Put(std::string* file, size_t at, T value) {
  std::memcpy(file->data() + at, &value, sizeof(value));
}

void Require(bool holds) {
  if (!holds) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Magic, version, metric, m, ef_construction, rows, entry, levels, fingerprint: hnsw_file.cc. Of these the input
  // chooses the entry and the number of levels.
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.size() < 80) file.resize(80);
  const std::string fingerprint(32, '0');
  file.replace(0, 8, "EMBHNSW\n");
  Put<uint32_t>(&file, 8, 1);
  Put<uint32_t>(&file, 12, static_cast<uint32_t>(Metric::kDot));
  Put<uint32_t>(&file, 16, kM);
  Put<uint32_t>(&file, 20, kEfConstruction);
  Put<uint64_t>(&file, 24, kNumRows);
  file.replace(48, 32, fingerprint);
  BlockHasher hasher;
  hasher.Update(file.data(), file.size());
  const BlockDigest digest = hasher.Digest();
  file.append(reinterpret_cast<const char*>(digest.data()), digest.size());

  const int descriptor = memfd_create("graph", 0);
  Require(descriptor >= 0 && write(descriptor, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  const absl::StatusOr<HnswGraph> graph = ReadHnswFile(absl::StrCat("/proc/self/fd/", descriptor), fingerprint,
                                                       {Metric::kDot, kM, kEfConstruction}, kNumRows);
  close(descriptor);
  if (!graph.ok()) return 0;
  // A walk stays inside.
  uint64_t count = kNumRows;
  for (uint32_t row = 0; row < kNumRows; ++row) {
    const uint32_t* list = graph->Links(row);
    Require(list[0] <= 2 * kM);
    for (uint32_t j = 1; j <= list[0]; ++j) Require(list[j] < kNumRows);
  }
  for (size_t level = 1; level <= graph->upper().size(); ++level) {
    const HnswGraph::Level& here = graph->upper()[level - 1];
    for (const uint32_t below : here.below) Require(below < count);
    for (const uint32_t row : here.rows) Require(row < kNumRows);
    count = here.below.size();
    for (uint32_t at = 0; at < count; ++at) {
      const uint32_t* list = graph->UpperLinks(level, at);
      Require(list[0] <= kM);
      for (uint32_t j = 1; j <= list[0]; ++j) Require(list[j] < count);
    }
  }
  Require(graph->entry() >= -1 && graph->entry() < static_cast<int64_t>(count));
  return 0;
}
