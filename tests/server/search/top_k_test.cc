#include "server/search/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TopKTest, KeepsClosestFirstAndTiesByLowerId) {
  TopK higher(Metric::kDot, 3);
  for (const Neighbour& entry : {Neighbour{9, 1.0f}, Neighbour{4, 2.0f}, Neighbour{7, 1.0f}, Neighbour{2, 0.5f}}) {
    higher.Add(entry);
  }
  EXPECT_THAT(higher.TakeSorted(), ElementsAre(Neighbour{4, 2.0f}, Neighbour{7, 1.0f}, Neighbour{9, 1.0f}));
  TopK lower(Metric::kEuclidean, 2);
  for (const Neighbour& entry : {Neighbour{9, 1.0f}, Neighbour{4, 2.0f}, Neighbour{7, 1.0f}}) lower.Add(entry);
  EXPECT_THAT(lower.TakeSorted(), ElementsAre(Neighbour{7, 1.0f}, Neighbour{9, 1.0f}));
}

TEST(TopKTest, ZeroOfAnythingIsNothing) {
  TopK none(Metric::kCosine, 0);
  none.Add({1, 1.0f});
  EXPECT_THAT(none.TakeSorted(), IsEmpty());
}

TEST(TopKTest, MinusZeroTiesWithZero) {
  TopK best(Metric::kDot, 2);
  best.Add({5, 0.0f});
  best.Add({3, -0.0f});
  best.Add({8, 0.0f});
  EXPECT_THAT(best.TakeSorted(), ElementsAre(Neighbour{3, -0.0f}, Neighbour{5, 0.0f}));
}

TEST(TopKTest, EqualsAFullSortWhateverTheOrderOfArrival) {
  std::mt19937_64 random(1);
  for (Metric metric : {Metric::kDot, Metric::kEuclidean}) {
    for (size_t k : {1u, 2u, 10u, 500u, 3000u}) {
      std::vector<Neighbour> all;
      for (int64_t id = 0; id < 2000; ++id) all.push_back({id, static_cast<float>(random() % 300)});
      std::shuffle(all.begin(), all.end(), random);
      TopK first(metric, k);
      TopK second(metric, k);
      for (size_t i = 0; i < all.size(); ++i) {
        TopK& part = i % 3 == 0 ? first : second;
        // MayKeep never refuses what belongs to the result.
        if (part.MayKeep(all[i])) part.Add(all[i]);
      }
      first.Merge(std::move(second));
      const std::vector<Neighbour> got = first.TakeSorted();
      std::sort(all.begin(), all.end(), [metric](const Neighbour& a, const Neighbour& b) {
        const float difference = metric == Metric::kDot ? b.score - a.score : a.score - b.score;
        return difference != 0 ? difference < 0 : a.id < b.id;
      });
      all.resize(std::min(k, all.size()));
      EXPECT_EQ(got, all) << k;
    }
  }
}

TEST(TopKTest, RefusesNanOnceFull) {
  TopK best(Metric::kDot, 1);
  for (int64_t id = 0; id < 100; ++id) best.Add({id, 1.0f});
  EXPECT_FALSE(best.MayKeep({200, NAN}));
}

}  // namespace
}  // namespace embedding
