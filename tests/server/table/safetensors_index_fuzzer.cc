// Feeds JSON to the reader of a set's index: no name that it lets through may leave the folder. The seed corpus lies in
// corpus/safetensors_index.
#include <cstdint>
#include <cstdlib>

#include "server/table/safetensors_set.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  const absl::StatusOr<WeightMap> weight_map =
      ParseSafetensorsIndex(std::string(reinterpret_cast<const char*>(data), size));
  if (!weight_map.ok()) return 0;
  if (weight_map->empty()) abort();
  for (const auto& [tensor, file] : *weight_map) {
    if (file.empty() || file.size() > 255 || file == "." || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      abort();
    }
  }
  return 0;
}
