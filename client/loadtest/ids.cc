#include "client/loadtest/ids.h"

#include <algorithm>
#include <cmath>

namespace embedding::loadtest {
namespace {

// (e^x - 1) / x and log(1 + x) / x, by their series near 0: s = 1 then needs no case of its own.
double Expm1OverX(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double Log1pOverX(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

// The hat of rank k is the area of t^-s over [k - 1/2, k + 1/2], which is at least k^-s since t^-s is convex. The first
// rank's hat is cut to k^-s exactly.
Zipf::Zipf(int64_t n, double s)
    : n_(static_cast<double>(n)),
      s_(s),
      low_(Integral(1.5) - 1),
      high_(Integral(n_ + 0.5)),
      shortcut_(2 - IntegralInverse(Integral(2.5) - std::pow(2, -s))) {}

double Zipf::Integral(double x) const {
  const double log_x = std::log(x);
  return Expm1OverX((1 - s_) * log_x) * log_x;
}

double Zipf::IntegralInverse(double y) const {
  const double t = std::max(-1.0, y * (1 - s_));
  return std::exp(Log1pOverX(t) * y);
}

int64_t Zipf::operator()(Random& random) const {
  while (true) {
    const double area = high_ + random.NextUnit() * (low_ - high_);
    const double x = IntegralInverse(area);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, n_);
    if (rank - x <= shortcut_ || area >= Integral(rank + 0.5) - std::pow(rank, -s_)) {
      return static_cast<int64_t>(rank) - 1;
    }
  }
}

IdSource::IdSource(IdDistribution distribution, int64_t num_rows, uint64_t seed)
    : distribution_(distribution), num_rows_(num_rows), seed_(seed), zipf_(num_rows, distribution.zipf_s) {}

void IdSource::Fill(uint64_t call, std::span<int64_t> ids) const {
  Random random(seed_, call);
  if (distribution_.kind == IdDistribution::Kind::kZipf) {
    for (int64_t& id : ids) id = zipf_(random);
  } else {
    for (int64_t& id : ids) id = static_cast<int64_t>(random.NextBelow(static_cast<uint64_t>(num_rows_)));
  }
}

}  // namespace embedding::loadtest
