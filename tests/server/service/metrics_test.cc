#include "server/service/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/service/metric_families.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;
using ::testing::StartsWith;

using Labels = std::map<std::string, std::string>;

BuildInfo SomeBuild() { return {"1.2.3", "abcdef", "gcc 12.2", "AVX2"}; }

TableMetrics SomeTable(const std::string& name) {
  return {name, 1, 10000, 100, 2000000, 0.25, 1.7e9, "F16", "safetensors", "00ff"};
}

prometheus::MetricFamily FindFamily(const Metrics& metrics, const std::string& name) {
  for (prometheus::MetricFamily& family : metrics.Collect()) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  return {};
}

// The sample that has at least these labels.
prometheus::ClientMetric Find(const Metrics& metrics, const std::string& name, const Labels& labels) {
  for (const prometheus::ClientMetric& sample : FindFamily(metrics, name).metric) {
    Labels have;
    for (const auto& label : sample.label) have[label.name] = label.value;
    if (std::all_of(labels.begin(), labels.end(), [&](const auto& want) {
          const auto found = have.find(want.first);
          return found != have.end() && found->second == want.second;
        })) {
      return sample;
    }
  }
  ADD_FAILURE() << "no such sample of " << name;
  return {};
}

double Counter(const Metrics& metrics, const std::string& name, const Labels& labels = {}) {
  return Find(metrics, name, labels).counter.value;
}

double Gauge(const Metrics& metrics, const std::string& name, const Labels& labels = {}) {
  return Find(metrics, name, labels).gauge.value;
}

// histogram_quantile as Prometheus documents it: linear within the bucket that holds the rank.
double Quantile(double q, const prometheus::ClientMetric::Histogram& histogram) {
  const double rank = q * static_cast<double>(histogram.sample_count);
  double lower = 0;
  double below = 0;
  for (const auto& bucket : histogram.bucket) {
    const auto count = static_cast<double>(bucket.cumulative_count);
    if (count >= rank) return lower + (bucket.upper_bound - lower) * (rank - below) / (count - below);
    lower = bucket.upper_bound;
    below = count;
  }
  return lower;
}

TEST(MetricsTest, ExportsExactlyTheListedFamiliesInTheListsTypesAndLabels) {
  Metrics metrics(SomeBuild());
  metrics.SetTable(SomeTable("words"));
  std::set<std::string> collected;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    collected.insert(family.name);
    const auto* info =
        std::find_if(kFamilies.begin(), kFamilies.end(), [&](const FamilyInfo& f) { return f.name == family.name; });
    ASSERT_NE(info, kFamilies.end()) << family.name;
    EXPECT_EQ(family.type, info->type) << family.name;
    EXPECT_EQ(family.help, info->help);
    EXPECT_FALSE(family.metric.empty()) << family.name;
    for (const prometheus::ClientMetric& sample : family.metric) {
      std::string names;
      for (const auto& label : sample.label) names += (names.empty() ? "" : ",") + label.name;
      EXPECT_EQ(names, info->labels) << family.name;
    }
  }
  EXPECT_EQ(collected.size(), kFamilies.size());
}

TEST(MetricsTest, ListIsInTheOrderOfItsEnumeration) {
  for (size_t i = 0; i < kFamilies.size(); ++i) EXPECT_EQ(static_cast<size_t>(kFamilies[i].family), i);
}

TEST(MetricsTest, ShowsZerosBeforeTheFirstCall) {
  Metrics metrics(SomeBuild());
  for (int rpc = 0; rpc < kNumRpcs; ++rpc) {
    const Labels labels = {{"grpc_method", std::string(RpcMethodName(static_cast<Rpc>(rpc)))}};
    EXPECT_EQ(Counter(metrics, "grpc_server_started_total", labels), 0);
    EXPECT_EQ(Gauge(metrics, "embedding_requests_in_flight", labels), 0);
    EXPECT_EQ(Find(metrics, "grpc_server_handling_seconds", labels).histogram.sample_count, 0u);
  }
  EXPECT_EQ(Counter(metrics, "embedding_log_messages_total", {{"level", "error"}}), 0);
  EXPECT_EQ(Counter(metrics, "embedding_nn_fallback_queries_total"), 0);
  EXPECT_EQ(Find(metrics, "embedding_nn_survivors", {}).histogram.sample_count, 0u);
  EXPECT_EQ(Find(metrics, "embedding_nn_pass_queries", {}).histogram.sample_count, 0u);
}

TEST(MetricsTest, StatusCodesAreSpelledAsInGo) {
  Metrics metrics(SomeBuild());
  std::vector<std::string> codes;
  for (const auto& sample : FindFamily(metrics, "grpc_server_handled_total").metric) {
    if (sample.label[2].value == "Lookup") codes.push_back(sample.label[3].value);
  }
  // The String method of google.golang.org/grpc/codes, in the order of the codes.
  EXPECT_THAT(codes,
              ElementsAre("OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound",
                          "AlreadyExists", "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted",
                          "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated"));
}

TEST(MetricsTest, StaysUnderElevenHundredSeriesWithTenTables) {
  Metrics metrics(SomeBuild());
  for (int i = 0; i < 10; ++i) metrics.SetTable(SomeTable("table" + std::to_string(i)));
  const std::string page = prometheus::TextSerializer().Serialize(metrics.Collect());
  int series = 0;
  bool line_start = true;
  for (const char c : page) {
    series += line_start && c != '#';
    line_start = c == '\n';
  }
  EXPECT_THAT(series, AllOf(Gt(500), Lt(1100)));
}

TEST(MetricsTest, CountsACallFromStartToEnd) {
  Metrics metrics(SomeBuild());
  const Labels similarity = {
      {"grpc_type", "unary"}, {"grpc_service", "embedding.v1.EmbeddingService"}, {"grpc_method", "Similarity"}};
  metrics.OnStarted(Rpc::kSimilarity);
  EXPECT_EQ(Gauge(metrics, "embedding_requests_in_flight", {{"grpc_method", "Similarity"}}), 1);
  metrics.OnHandled(Rpc::kSimilarity, 3, std::chrono::microseconds(500));
  EXPECT_EQ(Gauge(metrics, "embedding_requests_in_flight", {{"grpc_method", "Similarity"}}), 0);
  EXPECT_EQ(Counter(metrics, "grpc_server_started_total", similarity), 1);
  Labels invalid = similarity;
  invalid["grpc_code"] = "InvalidArgument";
  EXPECT_EQ(Counter(metrics, "grpc_server_handled_total", invalid), 1);
  EXPECT_EQ(Counter(metrics, "grpc_server_started_total", {{"grpc_method", "GetTable"}}), 0);
  const auto histogram = Find(metrics, "grpc_server_handling_seconds", similarity).histogram;
  EXPECT_EQ(histogram.sample_count, 1u);
  EXPECT_DOUBLE_EQ(histogram.sample_sum, 0.0005);
  EXPECT_EQ(metrics.calls_started(), 1);
  EXPECT_EQ(metrics.calls_handled(), 1);
}

TEST(MetricsTest, CodeOutsideTheKnownCountsAsUnknown) {
  Metrics metrics(SomeBuild());
  metrics.OnHandled(Rpc::kLookup, 17, std::chrono::nanoseconds(1));
  metrics.OnHandled(Rpc::kLookup, -1, std::chrono::nanoseconds(1));
  EXPECT_EQ(Counter(metrics, "grpc_server_handled_total", {{"grpc_method", "Lookup"}, {"grpc_code", "Unknown"}}), 2);
}

TEST(MetricsTest, NegativeTimeCountsAsZero) {
  Metrics metrics(SomeBuild());
  metrics.OnHandled(Rpc::kLookup, 0, std::chrono::hours(-24));
  const auto histogram = Find(metrics, "grpc_server_handling_seconds", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_EQ(histogram.sample_sum, 0);
  EXPECT_EQ(histogram.bucket.front().cumulative_count, 1u);
}

TEST(MetricsTest, CallsOfAHundredMicrosecondsHaveAP99Below250) {
  Metrics metrics(SomeBuild());
  for (int i = 0; i < 1000; ++i) metrics.OnHandled(Rpc::kLookup, 0, std::chrono::microseconds(100));
  const auto histogram = Find(metrics, "grpc_server_handling_seconds", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_THAT(Quantile(0.99, histogram), AllOf(Gt(50e-6), Lt(250e-6)));
}

TEST(MetricsTest, LatencyBoundsRunFromMicrosecondsToBeyondTheLongestDeadline) {
  Metrics metrics(SomeBuild());
  metrics.OnHandled(Rpc::kLookup, 0, std::chrono::seconds(31));
  metrics.OnHandled(Rpc::kLookup, 0, std::chrono::minutes(2));
  const auto histogram = Find(metrics, "grpc_server_handling_seconds", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_EQ(histogram.bucket.front().upper_bound, 25e-6);
  EXPECT_EQ(histogram.bucket.back().upper_bound, 60);
  EXPECT_EQ(histogram.bucket.back().cumulative_count, 1u) << "the call of two minutes is above every bound";
  EXPECT_EQ(histogram.sample_count, 2u);
}

TEST(MetricsTest, BoundsAreInclusiveAndReadAsShortDecimals) {
  Metrics metrics(SomeBuild());
  metrics.OnHandled(Rpc::kLookup, 0, std::chrono::microseconds(100));
  const std::string page = prometheus::TextSerializer().Serialize(metrics.Collect());
  const std::string series =
      "grpc_server_handling_seconds_bucket{grpc_type=\"unary\",grpc_service=\"embedding.v1.EmbeddingService\","
      "grpc_method=\"Lookup\",le=";
  EXPECT_THAT(page, HasSubstr(series + "\"5e-05\"} 0\n"));
  EXPECT_THAT(page, HasSubstr(series + "\"0.0001\"} 1\n"));
  EXPECT_THAT(page, HasSubstr(series + "\"+Inf\"} 1\n"));
}

TEST(MetricsTest, CountsRowsBytesAndStagesOfTheRpcsThatCarryRows) {
  Metrics metrics(SomeBuild());
  metrics.OnRows(Rpc::kLookup, 7, 2);
  metrics.OnResponseBytes(Rpc::kLookup, 1024);
  metrics.OnStage(Rpc::kNearestNeighbour, Stage::kCompute, std::chrono::milliseconds(3));
  EXPECT_EQ(Counter(metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "hit"}}), 7);
  EXPECT_EQ(Counter(metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "miss"}}), 2);
  const auto batch = Find(metrics, "embedding_batch_rows", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_EQ(batch.sample_sum, 9);
  const auto bytes = Find(metrics, "embedding_response_bytes", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_EQ(bytes.sample_sum, 1024);
  const auto compute =
      Find(metrics, "embedding_stage_seconds", {{"grpc_method", "NearestNeighbour"}, {"stage", "compute"}}).histogram;
  EXPECT_DOUBLE_EQ(compute.sample_sum, 0.003);
}

TEST(MetricsTest, OtherRpcsHaveNoRowsBytesOrStages) {
  Metrics metrics(SomeBuild());
  const size_t series = FindFamily(metrics, "embedding_stage_seconds").metric.size();
  metrics.OnRows(Rpc::kResolveKeys, 1, 0);
  metrics.OnResponseBytes(Rpc::kGetTable, 1);
  metrics.OnStage(Rpc::kListTables, Stage::kEncode, std::chrono::nanoseconds(1));
  const auto stages = FindFamily(metrics, "embedding_stage_seconds");
  EXPECT_EQ(stages.metric.size(), series);
  for (const auto& sample : stages.metric) EXPECT_EQ(sample.histogram.sample_count, 0u);
}

TEST(MetricsTest, CountsSearchesExpiredCallsAndLogLines) {
  Metrics metrics(SomeBuild());
  metrics.OnSearch(10000, 12, 1);
  metrics.OnSearch(10000, 11, 0);
  for (const int64_t rows : {12, 0, 11}) metrics.OnSurvivors(rows);
  metrics.OnPass(64);
  metrics.OnPass(1);
  metrics.OnExpiredBeforeRun(Rpc::kNearestNeighbour);
  metrics.OnLogMessage("warning");
  metrics.OnLogMessage("shouting");
  metrics.OnLogDropped(5);
  EXPECT_EQ(Counter(metrics, "embedding_nn_rows_scanned_total"), 20000);
  EXPECT_EQ(Counter(metrics, "embedding_nn_rows_rescored_total"), 23);
  EXPECT_EQ(Counter(metrics, "embedding_nn_fallback_queries_total"), 1);
  const auto survivors = Find(metrics, "embedding_nn_survivors", {}).histogram;
  EXPECT_EQ(survivors.sample_count, 3u);
  EXPECT_EQ(survivors.sample_sum, 23);
  const auto passes = Find(metrics, "embedding_nn_pass_queries", {}).histogram;
  EXPECT_EQ(passes.sample_count, 2u);
  EXPECT_EQ(passes.sample_sum, 65);
  EXPECT_EQ(passes.bucket.front().cumulative_count, 1u);
  EXPECT_EQ(passes.bucket.back().cumulative_count, 2u);
  EXPECT_EQ(Counter(metrics, "embedding_expired_before_run_total", {{"grpc_method", "NearestNeighbour"}}), 1);
  EXPECT_EQ(Counter(metrics, "embedding_log_messages_total", {{"level", "warning"}}), 1);
  EXPECT_EQ(FindFamily(metrics, "embedding_log_messages_total").metric.size(), 6u);
  EXPECT_EQ(Counter(metrics, "embedding_log_messages_dropped_total"), 5);
}

TEST(MetricsTest, TableOfTheSameNameReplacesTheFormerOne) {
  Metrics metrics(SomeBuild());
  metrics.SetTable(SomeTable("words"));
  TableMetrics second = SomeTable("words");
  second.version = 2;
  second.rows = 20000;
  second.index_size_bytes = 5200000;
  metrics.SetTable(second);
  EXPECT_EQ(FindFamily(metrics, "embedding_table_info").metric.size(), 1u);
  EXPECT_EQ(Gauge(metrics, "embedding_table_info", {{"table", "words"}, {"version", "2"}, {"dtype", "F16"}}), 1);
  EXPECT_EQ(Gauge(metrics, "embedding_table_rows", {{"table", "words"}}), 20000);
  EXPECT_EQ(Gauge(metrics, "embedding_table_dimensions"), 100);
  EXPECT_EQ(Gauge(metrics, "embedding_table_size_bytes"), 2000000);
  EXPECT_EQ(Gauge(metrics, "embedding_table_index_size_bytes"), 5200000);
  EXPECT_EQ(Gauge(metrics, "embedding_table_load_duration_seconds"), 0.25);
  EXPECT_EQ(Gauge(metrics, "embedding_table_loaded_timestamp_seconds"), 1.7e9);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_successful"), 1);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_success_timestamp_seconds"), 1.7e9);
}

TEST(MetricsTest, ReloadsAreCountedByOutcomeAndEndWithTheirTable) {
  Metrics metrics(SomeBuild());
  metrics.OnReload("words", /*ok=*/true, 1.8e9);  // not loaded: no series
  EXPECT_TRUE(FindFamily(metrics, "embedding_table_reloads_total").metric.empty());
  metrics.SetTable(SomeTable("words"));
  metrics.OnReload("words", /*ok=*/false, 0);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_successful", {{"table", "words"}}), 0);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_success_timestamp_seconds"), 1.7e9);
  metrics.SetTable(SomeTable("words"));
  metrics.OnReload("words", /*ok=*/true, 1.8e9);
  EXPECT_EQ(Counter(metrics, "embedding_table_reloads_total", {{"table", "words"}, {"result", "ok"}}), 1);
  EXPECT_EQ(Counter(metrics, "embedding_table_reloads_total", {{"table", "words"}, {"result", "failed"}}), 1);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_successful"), 1);
  EXPECT_EQ(Gauge(metrics, "embedding_table_last_reload_success_timestamp_seconds"), 1.8e9);
  metrics.RemoveTable("words");
  EXPECT_TRUE(FindFamily(metrics, "embedding_table_reloads_total").metric.empty());
  EXPECT_TRUE(FindFamily(metrics, "embedding_table_rows").metric.empty());
}

TEST(MetricsTest, BuildInfoNamesTheBinary) {
  Metrics metrics(SomeBuild());
  EXPECT_EQ(Gauge(metrics, "embedding_build_info",
                  {{"version", "1.2.3"}, {"revision", "abcdef"}, {"compiler", "gcc 12.2"}, {"simd", "AVX2"}}),
            1);
}

TEST(MetricsTest, ProcessFamiliesTellOfThisProcess) {
  Metrics metrics(SomeBuild());
  const double fds = Gauge(metrics, "process_open_fds");
  const int fd = open("/dev/null", O_RDONLY);
  ASSERT_NE(fd, -1);
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), fds + 1);
  close(fd);
  EXPECT_THAT(Gauge(metrics, "process_max_fds"), Ge(fds));
  EXPECT_THAT(Gauge(metrics, "process_threads"), Ge(1));
  EXPECT_THAT(Gauge(metrics, "process_resident_memory_bytes"), Gt(1e6));
  EXPECT_THAT(Gauge(metrics, "process_virtual_memory_bytes"), Ge(Gauge(metrics, "process_resident_memory_bytes")));
  EXPECT_THAT(Counter(metrics, "process_cpu_seconds_total"), Ge(0));
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_THAT(Gauge(metrics, "process_start_time_seconds"), AllOf(Le(now + 1), Gt(now - 86400)));
}

TEST(MetricsTest, CountsExactlyWhileOthersCollect) {
  constexpr int kThreads = 4;
  constexpr int kCallsPerThread = 20000;
  Metrics metrics(SomeBuild());
  std::atomic<bool> done{false};
  std::thread collector([&] {
    while (!done) {
      EXPECT_THAT(Gauge(metrics, "embedding_requests_in_flight", {{"grpc_method", "Lookup"}}),
                  AllOf(Ge(0), Le(kThreads)));
      const int64_t handled = metrics.calls_handled();
      EXPECT_LE(handled, metrics.calls_started());
    }
  });
  std::vector<std::thread> callers;
  callers.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < kCallsPerThread; ++i) {
        metrics.OnStarted(Rpc::kLookup);
        metrics.OnRows(Rpc::kLookup, 3, 1);
        metrics.OnStage(Rpc::kLookup, Stage::kEncode, std::chrono::nanoseconds(i));
        metrics.OnHandled(Rpc::kLookup, 0, std::chrono::nanoseconds(1000));
        if (i % 1000 == 0) metrics.SetTable(SomeTable("table" + std::to_string(t)));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  done = true;
  collector.join();

  constexpr int64_t kCalls = int64_t{kThreads} * kCallsPerThread;
  EXPECT_EQ(metrics.calls_started(), kCalls);
  EXPECT_EQ(metrics.calls_handled(), kCalls);
  EXPECT_EQ(Counter(metrics, "grpc_server_handled_total", {{"grpc_method", "Lookup"}, {"grpc_code", "OK"}}), kCalls);
  EXPECT_EQ(Counter(metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "hit"}}), 3 * kCalls);
  const auto histogram = Find(metrics, "grpc_server_handling_seconds", {{"grpc_method", "Lookup"}}).histogram;
  EXPECT_EQ(histogram.sample_count, static_cast<uint64_t>(kCalls));
  EXPECT_DOUBLE_EQ(histogram.sample_sum, static_cast<double>(kCalls) * 1e-6);
}

TEST(MetricFamiliesTest, NamesKeepToPrometheusRules) {
  for (const FamilyInfo& info : kFamilies) {
    const std::string name = info.name;
    EXPECT_THAT(name, AnyOf(StartsWith("grpc_server_"), StartsWith("embedding_"), StartsWith("process_")));
    EXPECT_EQ(info.type == prometheus::MetricType::Counter, name.ends_with("_total")) << name;
    if (std::string(info.unit) == "seconds") {
      EXPECT_THAT(name, HasSubstr("seconds"));
    }
    if (std::string(info.unit) == "bytes") {
      EXPECT_THAT(name, HasSubstr("bytes"));
    }
  }
}

}  // namespace
}  // namespace embedding
