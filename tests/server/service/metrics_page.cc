// Prints the page of a server that has answered a few calls, for promtool to judge.
#include <chrono>
#include <iostream>

#include "prometheus/text_serializer.h"
#include "server/service/metrics.h"

int main() {
  using namespace embedding;  // NOLINT(google-build-using-namespace): a page of a test
  Metrics metrics({"1.2.3", "abcdef", "gcc \"12\"", "AVX2"});
  metrics.SetTable({"words", 1, 10000, 100, 2000000, 0.25, 1.7e9, "F16", "safetensors", "00ff"});
  metrics.OnStarted(Rpc::kLookup);
  metrics.OnRows(Rpc::kLookup, 3, 1);
  metrics.OnResponseBytes(Rpc::kLookup, 1600);
  metrics.OnStage(Rpc::kLookup, Stage::kCompute, std::chrono::microseconds(7));
  metrics.OnHandled(Rpc::kLookup, 0, std::chrono::microseconds(42));
  prometheus::TextSerializer().Serialize(std::cout, metrics.Collect());
  return 0;
}
