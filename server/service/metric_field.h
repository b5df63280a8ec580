// Metric on the wire and inside.
#pragma once

#include "embedding/v1/embedding.pb.h"
#include "server/search/metric.h"
#include "server/service/snapshot.h"

namespace embedding {

constexpr v1::Metric WireMetric(Metric metric) {
  switch (metric) {
    case Metric::kCosine:
      return v1::METRIC_COSINE;
    case Metric::kDot:
      return v1::METRIC_DOT;
    case Metric::kEuclidean:
      return v1::METRIC_EUCLIDEAN;
  }
  return v1::METRIC_UNSPECIFIED;
}

// The metric that a request asks for; unspecified: the table's own. The number is one of the enum's.
inline Metric MetricOrDefault(v1::Metric metric, const Snapshot& snapshot) {
  switch (metric) {
    case v1::METRIC_COSINE:
      return Metric::kCosine;
    case v1::METRIC_DOT:
      return Metric::kDot;
    case v1::METRIC_EUCLIDEAN:
      return Metric::kEuclidean;
    default:
      return snapshot.default_metric;
  }
}

}  // namespace embedding
