// A small seeded generator. The distributions of <random> differ from library to library; the same --seed must ask the
// same ids everywhere.
#pragma once

#include <cstdint>

namespace embedding::loadtest {

// SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): 64 bits a step, any seed
// good.
class Random {
 public:
  // Streams of one seed are independent of each other.
  Random(uint64_t seed, uint64_t stream) : state_(Mix(seed + kGolden) ^ Mix(stream * kGolden + 1)) {}

  uint64_t Next() { return Mix(state_ += kGolden); }

  // Uniform in [0, 1), 53 bits.
  double NextUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Uniform in [0, bound), bound >= 1. By multiplication (Lemire 2019): no value is favoured by more than bound / 2^64.
  uint64_t NextBelow(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace embedding::loadtest
