#include "client/loadtest/options.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

LoadTestOptions Parsed(const std::vector<std::string>& arguments) {
  const ParsedOptions parsed = ParseOptions(arguments);
  EXPECT_EQ(parsed.err, "");
  return parsed.options.value_or(LoadTestOptions());
}

TEST(OptionsTest, DefaultIsAClosedLoopOfLookups) {
  const LoadTestOptions options = Parsed({});
  EXPECT_FALSE(options.plan.open_loop);
  EXPECT_EQ(options.plan.concurrency, 8);
  EXPECT_EQ(options.connections, 2);
  EXPECT_EQ(options.plan.duration_ns, 5'000'000'000);
  EXPECT_EQ(options.plan.warmup_ns, 1'000'000'000);
  EXPECT_EQ(options.workload.rpc, Rpc::kLookup);
  EXPECT_EQ(options.workload.batch_size, 64);
  EXPECT_EQ(options.address, "127.0.0.1:50051");
}

TEST(OptionsTest, RateOpensTheLoop) {
  const LoadTestOptions options =
      Parsed({"--rate", "2000.5", "--arrivals", "poisson", "--requests", "10", "--warmup", "0s", "--seed", "9"});
  EXPECT_TRUE(options.plan.open_loop);
  EXPECT_EQ(options.plan.rate, 2000.5);
  EXPECT_EQ(options.plan.arrivals, Arrivals::kPoisson);
  EXPECT_EQ(options.plan.max_in_flight, 256);
  EXPECT_EQ(options.plan.requests, 10);
  EXPECT_EQ(options.plan.duration_ns, 0);
  EXPECT_EQ(options.plan.warmup_ns, 0);
  EXPECT_EQ(options.plan.seed, 9u);
  EXPECT_EQ(options.workload.seed, 9u);
}

TEST(OptionsTest, NeighboursAskOneQueryACall) {
  const LoadTestOptions options = Parsed({"--rpc", "neighbours", "--metric", "dot", "--ids", "zipf:0.9"});
  EXPECT_EQ(options.workload.batch_size, 1);
  EXPECT_EQ(options.workload.k, 10);
  EXPECT_EQ(options.workload.metric, v1::METRIC_DOT);
  EXPECT_EQ(options.workload.ids.kind, IdDistribution::Kind::kZipf);
  EXPECT_EQ(options.workload.ids.zipf_s, 0.9);
}

TEST(OptionsTest, ApproximateSearchesHaveAnEffort) {
  const LoadTestOptions options =
      Parsed({"--rpc", "neighbours", "--mode", "approximate", "--effort", "65536", "--recall"});
  EXPECT_TRUE(options.workload.approximate);
  EXPECT_EQ(options.workload.effort, 65536);
  EXPECT_TRUE(options.verify);
  EXPECT_FALSE(Parsed({"--rpc", "neighbours", "--mode", "exact"}).workload.approximate);
}

TEST(OptionsTest, ASingleCallerHasOneConnection) { EXPECT_EQ(Parsed({"--concurrency", "1"}).connections, 1); }

TEST(OptionsTest, FailIfRepeats) {
  EXPECT_THAT(Parsed({"--fail-if", "p99>2ms", "--fail-if", "errors>0"}).thresholds, testing::SizeIs(2));
}

TEST(OptionsTest, AddressComesFromTheEnvironmentUnlessGiven) {
  ASSERT_EQ(setenv("EMBEDDING_ADDRESS", "127.0.0.1:7", 1), 0);
  EXPECT_EQ(Parsed({}).address, "127.0.0.1:7");
  EXPECT_EQ(Parsed({"-a", "127.0.0.1:8"}).address, "127.0.0.1:8");
  ASSERT_EQ(unsetenv("EMBEDDING_ADDRESS"), 0);
}

TEST(OptionsTest, HelpGoesToStdout) {
  for (const char* flag : {"-h", "--help"}) {
    const ParsedOptions parsed = ParseOptions({flag});
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_FALSE(parsed.options.has_value());
    EXPECT_THAT(parsed.out, HasSubstr("--fail-if"));
    EXPECT_THAT(parsed.err, IsEmpty());
  }
}

TEST(OptionsTest, DurationsHaveUnits) {
  int64_t ns = 0;
  EXPECT_TRUE(ParseDuration("5s", &ns) && ns == 5'000'000'000);
  EXPECT_TRUE(ParseDuration("1.5ms", &ns) && ns == 1'500'000);
  EXPECT_TRUE(ParseDuration("200us", &ns) && ns == 200'000);
  EXPECT_TRUE(ParseDuration("2m", &ns) && ns == 120'000'000'000);
  for (const char* bad : {"", "5", "s", "5 s", "-1s", "nans", "infs", "25h", "5ss"}) {
    EXPECT_FALSE(ParseDuration(bad, &ns)) << bad;
  }
}

struct RefusedCase {
  std::vector<std::string> arguments;
  std::string reason;
};

class RefusedTest : public testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedTest, IsAUsageErrorWithTheReason) {
  const ParsedOptions parsed = ParseOptions(GetParam().arguments);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_FALSE(parsed.options.has_value());
  EXPECT_THAT(parsed.err, HasSubstr(GetParam().reason));
  EXPECT_THAT(parsed.err, Not(HasSubstr("\n")));
  EXPECT_THAT(parsed.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedTest,
    testing::Values(
        RefusedCase{{"--bogus"}, "--bogus"}, RefusedCase{{"stray"}, "stray"},
        RefusedCase{{"--k", "5"}, "--k has no effect on --rpc lookup"},
        RefusedCase{{"--rpc", "similarity", "--k", "5"}, "--k has no effect on --rpc similarity"},
        RefusedCase{{"--metric", "dot"}, "--metric has no effect on --rpc lookup"},
        RefusedCase{{"--rpc", "search"},
                    "--rpc is \"search\", allowed is lookup, lookup-stream, similarity, neighbours"},
        RefusedCase{{"--rpc", "neighbours", "--metric", "l2"}, "--metric is \"l2\""},
        RefusedCase{{"--rpc", "neighbours", "--k", "0"}, "--k is 0, allowed is 1 to"},
        RefusedCase{{"--mode", "approximate"}, "--mode has no effect on --rpc lookup"},
        RefusedCase{{"--rpc", "neighbours", "--mode", "fast"}, "--mode is \"fast\""},
        RefusedCase{{"--rpc", "neighbours", "--recall"}, "--recall needs --mode approximate"},
        RefusedCase{{"--rpc", "neighbours", "--effort", "5"}, "--effort needs --mode approximate"},
        RefusedCase{{"--rpc", "neighbours", "--mode", "approximate", "--effort", "0"}, "--effort is 0"},
        RefusedCase{{"--rpc", "neighbours", "--mode", "approximate", "--effort", "65537"}, "--effort is 65537"},
        RefusedCase{{"--batch-size", "0"}, "--batch-size is 0, allowed is 1 to"},
        RefusedCase{{"--batch-size", "two"}, "--batch-size"}, RefusedCase{{"--ids", "zipfian"}, "--ids is \"zipfian\""},
        RefusedCase{{"--ids", "zipf:0"}, "above 0"}, RefusedCase{{"--ids", "zipf:nan"}, "above 0"},
        RefusedCase{{"--ids", "zipf:"}, "above 0"}, RefusedCase{{"--rate", "0"}, "--rate is 0"},
        RefusedCase{{"--rate", "nan"}, "--rate is nan"}, RefusedCase{{"--rate", "-1"}, "--rate is -1"},
        RefusedCase{{"--rate", "5", "--concurrency", "3"}, "--concurrency has no effect with --rate"},
        RefusedCase{{"--arrivals", "poisson"}, "--arrivals has no effect without --rate"},
        RefusedCase{{"--max-in-flight", "5"}, "--max-in-flight has no effect without --rate"},
        RefusedCase{{"--rate", "5", "--arrivals", "bursts"}, "--arrivals is \"bursts\""},
        RefusedCase{{"--rate", "0.1"}, "sends no call"}, RefusedCase{{"--concurrency", "0"}, "--concurrency is 0"},
        RefusedCase{{"--duration", "5s", "--requests", "50"}, "give one"},
        RefusedCase{{"--duration", "0s"}, "--duration is 0s"}, RefusedCase{{"--duration", "5"}, "--duration is \"5\""},
        RefusedCase{{"--warmup", "soon"}, "--warmup is \"soon\""},
        RefusedCase{{"--deadline", "0s"}, "--deadline is 0s"},
        RefusedCase{{"--requests", "7"}, "--requests is 7, allowed is 8 or more"},
        RefusedCase{{"--rate", "5", "--requests", "0"}, "--requests is 0"},
        RefusedCase{{"--connections", "9"}, "--connections is 9, but --concurrency 8"},
        RefusedCase{{"--rate", "9", "--max-in-flight", "2", "--connections", "3"}, "but --max-in-flight 2"},
        RefusedCase{{"--connections", "0"}, "--connections is 0"},
        RefusedCase{{"--output", "xml"}, "--output is \"xml\""},
        RefusedCase{{"--output", "json", "--report", "-"}, "give one"},
        RefusedCase{{"--fail-if", "p99=2ms"}, "--fail-if \"p99=2ms\""}, RefusedCase{{"--seed", "-1"}, "--seed"}));

}  // namespace
}  // namespace embedding::loadtest
