#include "server/search/metric.h"

namespace embedding {

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
