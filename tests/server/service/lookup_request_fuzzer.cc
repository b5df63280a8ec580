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
  return 0;
}
