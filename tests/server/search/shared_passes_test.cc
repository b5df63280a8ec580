// Callers that share passes: the same answers as alone, to the bit, whoever else asks and gives up.
#include "server/search/shared_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"

namespace embedding {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RandomRows;
using testing::Search;
using testing::TableOf;
using testing::VectorKind;

constexpr int kThreads = 2;
constexpr int64_t kRows = 40000;
constexpr int64_t kDim = 64;
constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};

std::vector<std::vector<std::pair<int64_t, uint32_t>>> Bits(const std::vector<std::vector<Neighbour>>& results) {
  std::vector<std::vector<std::pair<int64_t, uint32_t>>> bits;
  bits.reserve(results.size());
  for (const std::vector<Neighbour>& result : results) bits.push_back(testing::Bits(result));
  return bits;
}

class SharedPassesTest : public ::testing::TestWithParam<bool> {
 protected:
  SharedPassesTest() {
    std::mt19937_64 random(20261130);
    table_ = TableOf(Dtype::kF32, kDim, RandomRows(VectorKind::kGaussian, kRows, kDim, random));
    index_ = BuildExactIndex(*table_, GetParam(), pool_).value();
    alone_ = BuildExactIndex(*table_, GetParam(), pool_, {}, /*share_passes=*/false).value();
  }

  NeighbourQuery QueryFor(const std::vector<int64_t>& rows, Metric metric = Metric::kCosine, int64_t k = 10) const {
    NeighbourQuery query{metric, k, {}, {}};
    for (const int64_t row : rows) {
      query.queries.push_back({table_->row(row), ElementType::kF32});
      query.excluded_rows.push_back({row});
    }
    return query;
  }

  // What the callers heard, in the order in which they ended.
  struct Heard {
    std::vector<std::string> order;
    std::vector<NeighbourResult> results;
    size_t IndexOf(const std::string& name) const {
      return static_cast<size_t>(std::find(order.begin(), order.end(), name) - order.begin());
    }
    const NeighbourResult& Of(const std::string& name) const { return results[IndexOf(name)]; }
    std::vector<int64_t> Passes() const {
      std::vector<int64_t> passes;
      for (const NeighbourResult& result : results) {
        passes.insert(passes.end(), result.stats.pass_queries.begin(), result.stats.pass_queries.end());
      }
      std::sort(passes.begin(), passes.end());
      return passes;
    }
  };

  struct Caller {
    std::string name;
    NeighbourQuery query;
    StopPredicate stop = {};
  };

  // Starts all callers, in order, while every worker is held, then lets them run and waits for all.
  Heard RunTogether(std::vector<Caller> callers) {
    std::promise<void> go;
    std::shared_future<void> gate = go.get_future().share();
    pool_.Submit(
        kThreads, [gate](int) { gate.wait(); }, [] {});
    Heard heard;
    std::mutex mutex;
    std::promise<void> all;
    const size_t count = callers.size();
    for (Caller& caller : callers) {
      index_->Start(std::move(caller.query), pool_, std::move(caller.stop),
                    [&, name = caller.name](NeighbourResult result) {
                      const std::lock_guard<std::mutex> lock(mutex);
                      heard.order.push_back(name);
                      heard.results.push_back(std::move(result));
                      if (heard.order.size() == count) all.set_value();
                    });
    }
    go.set_value();
    all.get_future().wait();
    const std::lock_guard<std::mutex> lock(mutex);  // the last one may still hold it
    return heard;
  }

  WorkerPool pool_{kThreads};
  std::unique_ptr<EmbeddingTable> table_;
  std::unique_ptr<NeighbourIndex> index_;
  std::unique_ptr<NeighbourIndex> alone_;
};

INSTANTIATE_TEST_SUITE_P(Codes, SharedPassesTest, ::testing::Bool(), [](const ::testing::TestParamInfo<bool>& codes) {
  return std::string(codes.param ? "On" : "Off");
});

TEST_P(SharedPassesTest, ThoseThatWaitShareOnePassOfTheirMetric) {
  std::vector<Caller> callers = {{"first", QueryFor({0})}};
  for (int64_t i = 1; i <= 9; ++i) callers.push_back({std::to_string(i), QueryFor({i * 100}, Metric::kCosine, i)});
  for (int64_t i = 10; i <= 14; ++i) callers.push_back({std::to_string(i), QueryFor({i, i + 1}, Metric::kDot, i)});
  const std::vector<Caller> copies = callers;
  const Heard heard = RunTogether(std::move(callers));
  EXPECT_THAT(heard.Passes(), ElementsAre(1, 9, 10));
  for (const Caller& caller : copies) {
    const NeighbourResult alone = Search(*alone_, caller.query, pool_);
    const NeighbourResult& got = heard.Of(caller.name);
    EXPECT_EQ(got.outcome, WorkOutcome::kComplete);
    EXPECT_EQ(Bits(got.neighbours), Bits(alone.neighbours)) << caller.name;
    EXPECT_EQ(got.stats.rows_scanned, kRows * static_cast<int64_t>(caller.query.queries.size()));
    int64_t rescored = 0;
    for (const int64_t rows : got.stats.survivors) rescored += rows;
    EXPECT_EQ(rescored, got.stats.rows_rescored);
    EXPECT_GE(got.stats.waited.count(), 0);
  }
}

TEST_P(SharedPassesTest, LoneQueryHasAPassOfItsOwn) {
  const Heard heard = RunTogether({{"only", QueryFor({7})}});
  EXPECT_THAT(heard.Passes(), ElementsAre(1));
}

TEST_P(SharedPassesTest, PassHoldsAtMost64Queries) {
  std::vector<Caller> callers = {{"first", QueryFor({0})}};
  for (int64_t i = 0; i < 65; ++i) callers.push_back({std::to_string(i), QueryFor({i})});
  EXPECT_THAT(RunTogether(std::move(callers)).Passes(), ElementsAre(1, 1, 64));
}

TEST_P(SharedPassesTest, ManyQueriesOfOneCallerDoNotHoldUpOthers) {
  std::vector<int64_t> rows(200);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  const Heard heard = RunTogether({{"first", QueryFor({0})},
                                   {"large", QueryFor(rows)},
                                   {"a", QueryFor({1})},
                                   {"b", QueryFor({2})},
                                   {"c", QueryFor({3})}});
  // 61 of the large one's beside the others, then 64, 64 and 11.
  EXPECT_THAT(heard.Passes(), ElementsAre(1, 11, 64, 64, 64));
  EXPECT_EQ(heard.IndexOf("large"), 4u);
  EXPECT_EQ(Bits(heard.Of("large").neighbours), Bits(Search(*alone_, QueryFor(rows), pool_).neighbours));
}

TEST_P(SharedPassesTest, FiltersThresholdsAndExclusionsStayTheirOwners) {
  std::vector<int64_t> half;
  for (int64_t i = 1; i < kRows; i += 2) half.push_back(i);
  std::vector<Caller> callers = {{"first", QueryFor({0})}};
  const auto add = [&](const std::string& name, NeighbourQuery query) { callers.push_back({name, std::move(query)}); };
  NeighbourQuery query = QueryFor({2});
  query.filter.allow = half;
  add("half", query);
  query = QueryFor({4});
  query.filter.first_row = 10000;
  add("from", query);
  query = QueryFor({6});
  query.filter.end_row = 25000;
  add("to", query);
  query = QueryFor({8}, Metric::kCosine, 200);
  query.threshold = 0.3f;
  add("near", query);
  query = QueryFor({10}, Metric::kCosine, 1000);
  query.excluded_rows = {};
  add("many", query);
  const std::vector<Caller> copies = callers;
  const Heard heard = RunTogether(std::move(callers));
  // A list as long as that of "half" is sorted by a worker first, which may or may not be in time for the second pass.
  EXPECT_THAT(heard.Passes(), AnyOf(ElementsAre(1, 5), ElementsAre(1, 1, 4)));
  for (const Caller& caller : copies) {
    EXPECT_EQ(Bits(heard.Of(caller.name).neighbours), Bits(Search(*alone_, caller.query, pool_).neighbours))
        << caller.name;
  }
}

TEST_P(SharedPassesTest, SearchesThatNeedNoPassDoNotWaitForOne) {
  const std::vector<int64_t> few = {5, 6, 7};
  NeighbourQuery listed = QueryFor({0});
  listed.filter.allow = few;
  NeighbourQuery narrow = QueryFor({0});
  narrow.filter.end_row = 1000;
  const Heard heard = RunTogether({{"first", QueryFor({1})},
                                   {"second", QueryFor({2})},
                                   {"listed", listed},
                                   {"narrow", narrow},
                                   {"all", QueryFor({3}, Metric::kCosine, kRows)}});
  EXPECT_THAT(heard.Passes(), ElementsAre(1, 1, 1));  // that of narrow among them
  EXPECT_LT(heard.IndexOf("listed"), heard.IndexOf("second"));
  EXPECT_EQ(heard.Of("narrow").stats.rows_scanned, 1000);
  EXPECT_EQ(heard.Of("listed").stats.rows_scanned, 0);
  EXPECT_EQ(heard.Of("listed").neighbours[0].size(), 3u);
  EXPECT_EQ(heard.Of("all").neighbours[0].size(), static_cast<size_t>(kRows - 1));
}

TEST_P(SharedPassesTest, OneThatGivesUpEndsAtOnceAndEndsNobodyElse) {
  std::atomic<bool> cancelled{false};
  std::atomic<int> polls{0};
  std::atomic<int> polls_of_first{0};
  // The first one gives up at once when workers come, so that the one that stays is hardly polled before its own pass,
  // in the middle of which it cancels the other.
  const Heard heard = RunTogether({{"first", QueryFor({0}), [&] { return polls_of_first.fetch_add(1) > 2; }},
                                   {"leaves", QueryFor({1, 2}), [&] { return cancelled.load(); }},
                                   {"stays", QueryFor({3}), [&] {
                                      if (polls.fetch_add(1) == 6) cancelled = true;
                                      return false;
                                    }}});
  ASSERT_TRUE(cancelled.load());
  EXPECT_LT(heard.IndexOf("leaves"), heard.IndexOf("stays"));
  EXPECT_EQ(heard.Of("leaves").outcome, WorkOutcome::kStopped);
  EXPECT_THAT(heard.Of("leaves").neighbours, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_EQ(heard.Of("stays").outcome, WorkOutcome::kComplete);
  EXPECT_EQ(Bits(heard.Of("stays").neighbours), Bits(Search(*alone_, QueryFor({3}), pool_).neighbours));
  EXPECT_THAT(heard.Passes(), ElementsAre(1, 3));
}

TEST_P(SharedPassesTest, WhenAllGiveUpThePassStops) {
  std::atomic<int> polls{0};
  const StopPredicate stop = [&polls] { return polls.fetch_add(1) >= 5; };
  const Heard heard = RunTogether({{"a", QueryFor({0}), stop}, {"b", QueryFor({1}), stop}, {"c", QueryFor({2}), stop}});
  for (const NeighbourResult& result : heard.results) EXPECT_EQ(result.outcome, WorkOutcome::kStopped);
  // And the index serves on.
  EXPECT_EQ(Bits(Search(*index_, QueryFor({9}), pool_).neighbours),
            Bits(Search(*alone_, QueryFor({9}), pool_).neighbours));
}

TEST_P(SharedPassesTest, OneThatGivesUpWhileItWaitsHearsSoBeforeThePassEnds) {
  std::atomic<bool> cancelled{false};
  std::atomic<int> polls{0};
  const Heard heard = RunTogether({{"first", QueryFor({0}),
                                    [&] {
                                      if (polls.fetch_add(1) == 0) cancelled = true;
                                      return false;
                                    }},
                                   {"waits", QueryFor({1}), [&] { return cancelled.load(); }}});
  EXPECT_THAT(heard.order, ElementsAre("waits", "first"));
  EXPECT_EQ(heard.Of("waits").outcome, WorkOutcome::kStopped);
  EXPECT_EQ(heard.Of("first").outcome, WorkOutcome::kComplete);
  EXPECT_THAT(heard.Passes(), ElementsAre(1));
}

TEST_P(SharedPassesTest, QueryThatNeedsTheFullScanHoldsUpNobody) {
  const std::vector<float> zero(kDim, 0.0f);  // no bound holds for it
  NeighbourQuery without_bound{Metric::kCosine, 3, {{zero.data(), ElementType::kF32}}, {}};
  const Heard heard = RunTogether({{"first", QueryFor({0})}, {"zero", without_bound}, {"other", QueryFor({1})}});
  EXPECT_EQ(heard.IndexOf("zero"), 2u);
  EXPECT_EQ(heard.Of("zero").stats.fallback_queries, 1);
  EXPECT_EQ(heard.Of("other").stats.fallback_queries, 0);
  EXPECT_THAT(heard.Of("zero").stats.survivors, ElementsAre(kRows));
  EXPECT_THAT(heard.Of("zero").neighbours[0], ElementsAre(Neighbour{0, 0.0f}, Neighbour{1, 0.0f}, Neighbour{2, 0.0f}));
}

// Callers of every kind at the same time, from several threads, some of which give up.
TEST_P(SharedPassesTest, AnswersAreThoseOfEachCallerAlone) {
  constexpr int kCallers = 6;
  constexpr int kSearches = 25;
  std::vector<int64_t> odd;
  for (int64_t i = 1; i < kRows; i += 2) odd.push_back(i);
  struct Done {
    NeighbourQuery query;
    NeighbourResult result;
    bool may_stop;
  };
  std::vector<std::vector<Done>> done(kCallers);
  std::vector<std::thread> threads;
  threads.reserve(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&, caller] {
      std::mt19937_64 random(static_cast<uint64_t>(caller));
      const auto pick = [&random](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
      for (int search = 0; search < kSearches; ++search) {
        std::vector<int64_t> rows(static_cast<size_t>(1 + (pick(5) == 0 ? pick(90) : pick(3))));
        for (int64_t& row : rows) row = pick(kRows);
        NeighbourQuery query = QueryFor(rows, kMetrics[pick(3)], pick(8) == 0 ? 1 + pick(3000) : 1 + pick(20));
        if (pick(4) == 0) query.filter.allow = odd;
        if (pick(4) == 0) query.filter.first_row = pick(kRows);
        if (pick(4) == 0) query.threshold = query.metric == Metric::kEuclidean ? 9.5f : 0.2f;
        const bool may_stop = pick(4) == 0;
        auto polls = std::make_shared<std::atomic<int64_t>>(pick(60));
        StopPredicate stop;
        if (may_stop) stop = [polls] { return polls->fetch_sub(1) <= 0; };
        NeighbourResult result = Search(*index_, query, pool_, stop);
        done[static_cast<size_t>(caller)].push_back({std::move(query), std::move(result), may_stop});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t complete = 0;
  for (const std::vector<Done>& of_caller : done) {
    for (const Done& one : of_caller) {
      if (one.result.outcome == WorkOutcome::kStopped) {
        EXPECT_TRUE(one.may_stop);
        continue;
      }
      ++complete;
      ASSERT_EQ(Bits(one.result.neighbours), Bits(Search(*alone_, one.query, pool_).neighbours));
    }
  }
  EXPECT_GT(complete, kCallers * kSearches / 2);
}

}  // namespace
}  // namespace embedding
