// Which ids the calls ask for.
#pragma once

#include <cstdint>
#include <span>

#include "client/loadtest/random.h"

namespace embedding::loadtest {

// P(id) is proportional to 1 / (id + 1)^s for id in [0, n): id 0 is the most wanted, as in a table ordered by
// frequency. Exact for every n and s at constant memory, about one logarithm and one exponential an id:
// rejection-inversion (Hoermann and Derflinger 1996, "Rejection-inversion to generate variates from monotone discrete
// distributions").
class Zipf {
 public:
  // n >= 1; s > 0.
  Zipf(int64_t n, double s);

  int64_t operator()(Random& random) const;

 private:
  double Integral(double x) const;         // of t^-s, from 1 to x
  double IntegralInverse(double y) const;  // x such that Integral(x) = y

  const double n_;
  const double s_;
  const double low_;       // area at the left edge of the first rank
  const double high_;      // area at the right edge of the last rank
  const double shortcut_;  // within this distance to the right of the inverse, a rank needs no test
};

struct IdDistribution {
  enum class Kind { kUniform, kZipf };
  Kind kind = Kind::kUniform;
  double zipf_s = 1.0;  // > 0
};

// The ids of call number `call`: the same for the same seed, whatever connection sends it and when. Immutable, so safe
// for any number of threads.
class IdSource {
 public:
  // num_rows >= 1.
  IdSource(IdDistribution distribution, int64_t num_rows, uint64_t seed);

  // Overwrites ids, each in [0, num_rows).
  void Fill(uint64_t call, std::span<int64_t> ids) const;

 private:
  const IdDistribution distribution_;
  const int64_t num_rows_;
  const uint64_t seed_;
  const Zipf zipf_;
};

}  // namespace embedding::loadtest
