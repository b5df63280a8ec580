// What a metric is, which way is better, and how a table's metric= word maps to it.
#pragma once

#include <cstdint>

#include "server/table/table_options.h"

namespace embedding {

enum class Metric : uint8_t { kCosine, kDot, kEuclidean };

// True for cosine and dot; false for euclidean, where lower is closer.
constexpr bool HigherIsCloser(Metric metric) { return metric != Metric::kEuclidean; }

// At least as close as the threshold, which counts itself.
constexpr bool Reaches(Metric metric, float score, float threshold) {
  return HigherIsCloser(metric) ? score >= threshold : score <= threshold;
}

Metric MetricOf(TableMetric metric);

}  // namespace embedding
