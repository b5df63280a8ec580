// "Did you mean ...?"
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace embedding {

// The name that is fewest letters (inserted, dropped or changed) away from `word`, the first of several; empty when
// even that is more than a third of the word's length away, and at least two.
std::string NearestName(absl::string_view word, const std::vector<std::string>& names);

}  // namespace embedding
