#include "server/search/top_k.h"

#include <algorithm>
#include <utility>

namespace embedding {

TopK::TopK(Metric metric, size_t k) : metric_(metric), k_(k), capacity_(2 * k + 64) {}

void TopK::Add(const Neighbour& entry) {
  if (k_ == 0 || !MayKeep(entry)) return;
  entries_.push_back(entry);
  if (entries_.size() >= capacity_) Cut();
}

void TopK::Cut() {
  if (entries_.size() < k_ || k_ == 0) return;
  const auto kth = entries_.begin() + static_cast<ptrdiff_t>(k_ - 1);
  std::nth_element(entries_.begin(), kth, entries_.end(),
                   [metric = metric_](const Neighbour& a, const Neighbour& b) { return IsCloser(metric, a, b); });
  bound_ = *kth;
  has_bound_ = true;
  entries_.resize(k_);
}

std::vector<Neighbour> TopK::TakeSorted() {
  Cut();
  std::sort(entries_.begin(), entries_.end(),
            [metric = metric_](const Neighbour& a, const Neighbour& b) { return IsCloser(metric, a, b); });
  has_bound_ = false;
  return std::exchange(entries_, {});
}

void TopK::Merge(TopK other) {
  for (const Neighbour& entry : other.entries_) Add(entry);
}

}  // namespace embedding
