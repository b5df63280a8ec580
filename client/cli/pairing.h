// Who is compared with whom by `similarity`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/flags.h"
#include "client/types.h"

namespace embedding::client {

// Which operands stand left and which right, by their positions among all.
struct Sides {
  std::vector<size_t> left;
  std::vector<size_t> right;
  Layout layout = Layout::kAllPairs;
};

// INVALID_ARGUMENT: fewer than two operands (but for kAllPairs), or an odd number for kPairwise.
absl::StatusOr<Sides> PairUp(size_t count, Pairing pairing);

// The operands at these positions, in this order.
VectorSource Picked(const VectorSource& operands, const std::vector<size_t>& positions);
std::vector<std::string> Picked(const std::vector<std::string>& labels, const std::vector<size_t>& positions);

}  // namespace embedding::client
