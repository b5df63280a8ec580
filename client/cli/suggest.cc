#include "client/cli/suggest.h"

#include <algorithm>

namespace embedding::client {

size_t EditDistance(const std::string& a, const std::string& b) {
  // rows[i][j]: distance of the first i bytes of a and the first j of b.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({replaced, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string Suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxEdits = 2;
  constexpr size_t kMaxWordBytes = 64;  // longer words are no typo of a name of ours
  if (word.size() > kMaxWordBytes) return "";
  std::string best;
  size_t best_distance = kMaxEdits + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace embedding::client
