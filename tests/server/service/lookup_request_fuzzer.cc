// Any bytes: the hand-written parser of LookupRequest accepts what protobuf accepts, with the same content.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "tests/server/service/same_as_protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::SetLogHandler(nullptr);  // it reports each string that is not UTF-8
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string difference = embedding::testing::DifferenceFromProtobuf(bytes);
  if (!difference.empty()) {
    std::fprintf(stderr, "parsers differ: %s\n", difference.c_str());
    std::abort();
  }
  // Fewer kept changes neither the outcome nor the count.
  embedding::LookupRequest all, some;
  const bool accepted = embedding::ParseLookupRequest(bytes, &all).ok();
  if (embedding::ParseLookupRequest(bytes, &some, 1).ok() != accepted || all.rows.count != some.rows.count)
    std::abort();
  if (all.pooling.has_value() != some.pooling.has_value()) std::abort();
  if (all.pooling &&
      (all.pooling->num_offsets != some.pooling->num_offsets || all.pooling->num_weights != some.pooling->num_weights ||
       some.pooling->offsets.size() > 2 || some.pooling->weights.size() > 1)) {
    std::abort();
  }
  return 0;
}
