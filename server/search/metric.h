// What a metric is, which way is better, and how a table's metric= word maps to it.
#pragma once

#include <cstdint>

#include "server/table/table_options.h"

namespace embedding {

enum class Metric : uint8_t { kCosine, kDot, kEuclidean };

// True for cosine and dot; false for euclidean, where lower is closer.
constexpr bool HigherIsCloser(Metric metric) { return metric != Metric::kEuclidean; }

Metric MetricOf(TableMetric metric);

}  // namespace embedding
