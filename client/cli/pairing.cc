#include "client/cli/pairing.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace embedding::client {
namespace {

template <typename Element>
std::vector<Element> PickedElements(const std::vector<Element>& from, const std::vector<size_t>& positions) {
  std::vector<Element> picked;
  picked.reserve(positions.size());
  for (const size_t i : positions) picked.push_back(from[i]);
  return picked;
}

}  // namespace

absl::StatusOr<Sides> PairUp(size_t count, Pairing pairing) {
  if (count < 2 && pairing != Pairing::kAllPairs) {
    return absl::InvalidArgumentError(absl::StrCat("similarity needs two or more rows or vectors, given ", count));
  }
  if (count % 2 != 0 && pairing == Pairing::kPairwise) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layout pairwise needs an even number of operands, given ", count));
  }
  Sides sides;
  if (pairing == Pairing::kPairwise) sides.layout = Layout::kPairwise;
  for (size_t i = 0; i < count; ++i) {
    const bool is_left = pairing == Pairing::kFirst ? i == 0 : i % 2 == 0;
    if (is_left || pairing == Pairing::kAllPairs) sides.left.push_back(i);
    if (!is_left || pairing == Pairing::kAllPairs) sides.right.push_back(i);
  }
  return sides;
}

VectorSource Picked(const VectorSource& operands, const std::vector<size_t>& positions) {
  if (const Ids* ids = std::get_if<Ids>(&operands)) return Ids{PickedElements(ids->values, positions), {}};
  if (const Keys* keys = std::get_if<Keys>(&operands)) return Keys{PickedElements(keys->values, positions), {}};
  const Vectors& vectors = std::get<Vectors>(operands);
  Vectors picked{{}, vectors.dim};
  for (const size_t i : positions) {
    const auto begin = vectors.values.begin() + static_cast<ptrdiff_t>(i) * vectors.dim;
    picked.values.insert(picked.values.end(), begin, begin + vectors.dim);
  }
  return picked;
}

std::vector<std::string> Picked(const std::vector<std::string>& labels, const std::vector<size_t>& positions) {
  return PickedElements(labels, positions);
}

}  // namespace embedding::client
