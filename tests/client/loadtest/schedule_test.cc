#include "client/loadtest/schedule.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

TEST(ScheduleTest, ConstantGapsFollowTheRate) {
  Schedule schedule(2000, Arrivals::kConstant, 1);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(schedule.NextNs(), i * 500'000);
}

// 1e9 / 3 is no whole number of nanoseconds; after a million calls the rate is still exact.
TEST(ScheduleTest, RoundingDoesNotAddUp) {
  Schedule schedule(3, Arrivals::kConstant, 1);
  int64_t last = 0;
  for (int i = 0; i <= 3'000'000; ++i) last = schedule.NextNs();
  EXPECT_NEAR(static_cast<double>(last), 1e15, 1000);
}

// The exponential distribution: mean 1 / rate, standard deviation equal to it, P(gap > t) = exp(-rate t).
TEST(ScheduleTest, PoissonGapsAreExponential) {
  constexpr int kCalls = 200'000;
  Schedule schedule(1000, Arrivals::kPoisson, 5);
  double sum = 0, squares = 0;
  int beyond_twice_the_mean = 0;
  int64_t last = 0;
  for (int i = 0; i < kCalls; ++i) {
    const int64_t at = schedule.NextNs();
    ASSERT_GE(at, last);
    const auto gap = static_cast<double>(at - last);
    sum += gap;
    squares += gap * gap;
    if (gap > 2e6) ++beyond_twice_the_mean;
    last = at;
  }
  const double mean = sum / kCalls;
  // Five standard errors: 1/sqrt(n) of the mean, about sqrt(2/n) of the deviation, sqrt(p(1-p)/n) of the share.
  EXPECT_NEAR(mean, 1e6, 1e6 * 5 / std::sqrt(kCalls));
  EXPECT_NEAR(std::sqrt(squares / kCalls - mean * mean), 1e6, 1e6 * 10 / std::sqrt(kCalls));
  EXPECT_NEAR(static_cast<double>(beyond_twice_the_mean) / kCalls, std::exp(-2.0), 5 * 0.35 / std::sqrt(kCalls));
}

TEST(ScheduleTest, SeedDecidesPoissonTimes) {
  Schedule a(1000, Arrivals::kPoisson, 5), b(1000, Arrivals::kPoisson, 5), c(1000, Arrivals::kPoisson, 6);
  std::vector<int64_t> from_a, from_b, from_c;
  for (int i = 0; i < 100; ++i) {
    from_a.push_back(a.NextNs());
    from_b.push_back(b.NextNs());
    from_c.push_back(c.NextNs());
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

}  // namespace
}  // namespace embedding::loadtest
