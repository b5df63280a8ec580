#include "server/search/metric.h"

namespace embedding {

absl::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kCosine:
      return "cosine";
    case Metric::kDot:
      return "dot";
    case Metric::kEuclidean:
      break;
  }
  return "euclidean";
}

Metric MetricOf(TableMetric metric) {
  switch (metric) {
    case TableMetric::kCosine:
      return Metric::kCosine;
    case TableMetric::kDot:
      return Metric::kDot;
    case TableMetric::kEuclidean:
      break;
  }
  return Metric::kEuclidean;
}

}  // namespace embedding
