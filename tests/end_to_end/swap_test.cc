// Versions are swapped while calls come: every call is answered, each from one version, none from an older one than was
// acknowledged before it began, and memory does not grow.
//
// Every element of version N is N, so that an answer tells of itself what it holds. EMBEDDING_SWAPS: how many swaps,
// 120 without it (20 under a sanitizer, without a look at memory). EMBEDDING_SWAP_DIM: width of the rows, 128 without
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/embedding_client.h"
#include "tests/end_to_end/child_server.h"
#include "tests/testing/table_files.h"

namespace embedding::testing {
namespace {

// 25.6 MB a version at 128 columns: one that is not freed cannot hide behind kHeapGrowth.
constexpr int64_t kRows = 50'000;
// The swap after which memory is not to grow any more, by more than 2 % or what the heap takes for threads and
// connections that come later (4 MB were seen, whatever the size of the table).
constexpr int64_t kSettledSwap = 100;
constexpr double kHeapGrowth = 8 << 20;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  int64_t number = otherwise;
  if (const char* text = std::getenv(name); text != nullptr && !absl::SimpleAtoi(text, &number)) {
    ADD_FAILURE() << name << " is " << text;
  }
  return number;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // freed memory is kept for a while, and all takes longer
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

int64_t NumSwaps() {
  if (kSanitized) return 20;
  return std::max(FromEnvironment("EMBEDDING_SWAPS", 120), kSettledSwap + 1);
}

int64_t Dim() {
  static const int64_t dim = FromEnvironment("EMBEDDING_SWAP_DIM", 128);
  return dim;
}

// A new file under the same name, as a deployment would rename one into place.
void WriteVersion(const ScratchFolder& folder, int64_t version) {
  const std::vector<float> values(static_cast<size_t>(kRows * Dim()), static_cast<float>(version));
  {
    std::ofstream file(folder.Path("next.tmp"), std::ios::binary);
    file << LittleEndian(kRows, 4) << LittleEndian(Dim(), 4);  // as .fbin begins
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  std::filesystem::rename(folder.Path("next.tmp"), folder.Path("next.fbin"));
}

// What callers saw.
struct Findings {
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> failed{0};
  std::atomic<int64_t> mixed{0};  // an element that is not the stamp's version
  std::atomic<int64_t> old{0};    // older than what was acknowledged before the call
};

// Calls one after the other until told to stop. Each object is one connection.
class Caller {
 public:
  Caller(const std::string& address, int number, const std::atomic<int64_t>& acknowledged, Findings& findings)
      : acknowledged_(acknowledged), findings_(findings) {
    ClientOptions options;
    options.address = address;
    options.max_attempts = 1;  // a failure that a second attempt hides is one too
    options.deadline = std::chrono::seconds(60);
    client_ = *EmbeddingClient::Create(options);
    thread_ = std::thread([this, number] { Run(number); });
  }
  ~Caller() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run(int number) {
    for (int64_t i = 0; !stop_; ++i) {
      const int64_t floor = acknowledged_.load();
      ++findings_.calls;
      if (number == 0 && i % 4 == 0) {
        Search(floor, i);
      } else {
        Lookup(floor, i);
      }
    }
  }

  void Lookup(int64_t floor, int64_t i) {
    client::Ids ids;
    for (int64_t j = 0; j < 64; ++j) ids.values.push_back((i * 977 + j * 311) % kRows);
    client::LookupRequest request;
    request.rows = ids;
    const absl::StatusOr<client::LookupResult> result = client_->Lookup(request);
    if (!result.ok()) return Fail(result.status());
    Check(floor, result->table, result->embeddings.ToFloats());
  }

  // The rows of one version are equal, so the nearest ones by euclidean distance are the first, at distance 0.
  void Search(int64_t floor, int64_t i) {
    client::NearestNeighbourRequest request;
    request.targets = client::Ids{{i % kRows}, {}};
    request.k = 3;
    request.metric = client::Metric::kEuclidean;
    request.return_vectors = true;
    const absl::StatusOr<client::NearestNeighbourResult> result = client_->NearestNeighbour(request);
    if (!result.ok()) return Fail(result.status());
    if (result->results.size() != 1 || result->results[0].scores != std::vector<float>{0, 0, 0}) ++findings_.mixed;
    Check(floor, result->table, result->results[0].vectors.ToFloats());
  }

  void Check(int64_t floor, const client::TableStamp& stamp, const std::vector<float>& values) {
    const auto version = static_cast<int64_t>(stamp.version);
    if (version < floor) ++findings_.old;
    const bool whole = !values.empty() && std::all_of(values.begin(), values.end(), [&](float value) {
      return value == static_cast<float>(version);
    });
    if (!whole) ++findings_.mixed;
  }

  void Fail(const absl::Status& status) {
    if (findings_.failed++ == 0) ADD_FAILURE() << status;
  }

  const std::atomic<int64_t>& acknowledged_;
  Findings& findings_;
  std::unique_ptr<EmbeddingClient> client_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Once nothing drains: the smallest of some readings, as an answer under way takes memory too.
double SettledMemory(ChildServer& server) {
  const double versions = 2 * static_cast<double>(kRows * Dim() * 4) * 1.4;  // with codes and norms
  double smallest = std::numeric_limits<double>::max();
  for (int reading = 0; reading < 20; ++reading) {
    if (server.MetricValue("embedding_tables_memory_bytes") > versions) continue;
    smallest = std::min(smallest, server.MetricValue("process_resident_memory_bytes"));
  }
  return smallest;
}

TEST(SwapTest, NoCallSeesASwap) {
  const int64_t swaps = NumSwaps();
  const ScratchFolder folder;
  WriteVersion(folder, 1);
  ChildServer server({"--table", "t=" + folder.Path("next.fbin"), "--table-root", folder.Path("")});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  ClientOptions options;
  options.address = server.grpc_address();
  const std::unique_ptr<EmbeddingClient> admin = *EmbeddingClient::Create(options);

  std::atomic<int64_t> acknowledged{1};
  Findings findings;
  double settled = 0, at_end = 0;
  {
    std::vector<std::unique_ptr<Caller>> callers;
    for (int i = 0; i < 3; ++i) {
      callers.push_back(std::make_unique<Caller>(options.address, i, acknowledged, findings));
    }
    for (int64_t swap = 1; swap <= swaps; ++swap) {
      WriteVersion(folder, swap + 1);
      const absl::StatusOr<client::TableInfo> table =
          admin->LoadTable({.name = "t", .path = "next.fbin", .options = {}});
      ASSERT_TRUE(table.ok()) << table.status();
      ASSERT_EQ(table->serving_version, static_cast<uint64_t>(swap + 1));
      acknowledged = swap + 1;
      if (swap == kSettledSwap) settled = SettledMemory(server);
    }
    at_end = SettledMemory(server);  // under the same load
  }
  RecordProperty("swaps", std::to_string(swaps));
  RecordProperty("calls", std::to_string(findings.calls));
  RecordProperty("resident_bytes_after_100", std::to_string(settled));
  RecordProperty("resident_bytes_at_end", std::to_string(at_end));
  std::printf(
      "%ld swaps, %ld calls: %ld failed, %ld mixed, %ld old; resident %.1f MiB after swap %ld, %.1f at the end\n",
      static_cast<long>(swaps), static_cast<long>(findings.calls), static_cast<long>(findings.failed),
      static_cast<long>(findings.mixed), static_cast<long>(findings.old), settled / (1 << 20),
      static_cast<long>(kSettledSwap), at_end / (1 << 20));
  EXPECT_EQ(findings.failed, 0);
  EXPECT_EQ(findings.mixed, 0);
  EXPECT_EQ(findings.old, 0);
  EXPECT_GT(findings.calls, swaps);
  EXPECT_EQ(server.MetricValue("embedding_table_reloads_total{table=\"t\",result=\"ok\"}"), static_cast<double>(swaps));
  if (!kSanitized) {
    EXPECT_GT(settled, 0);  // it was read at all
    EXPECT_LT(settled, std::numeric_limits<double>::max());
    EXPECT_LE(at_end, std::max(settled * 1.02, settled + kHeapGrowth));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace embedding::testing
