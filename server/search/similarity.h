// Scores of given pairs.
#pragma once

#include <functional>
#include <span>

#include "server/exec/worker_pool.h"
#include "server/search/metric.h"
#include "server/search/score.h"

namespace embedding {

// Polled between blocks of work from any worker: true stops the work early.
using StopPredicate = std::function<bool()>;

// How a piece of work ended: kStopped means that results are incomplete and must not be used.
enum class WorkOutcome : uint8_t { kComplete, kStopped };

// scores[i] = canonical score of left[i] and right[i]; left, right, scores: [n].
// scores[i * right.size() + j] = canonical score of left[i] and right[j]; scores: [left.size() * right.size()].
// Both return at once and call done on a worker thread (or, for little work, on this one before returning); the vectors
// that the views point to, the spans and scores must live until then. Vectors must be finite.
void StartPairwise(Metric metric, std::span<const VectorView> left, std::span<const VectorView> right, int64_t dim,
                   std::span<float> scores, WorkerPool& pool, StopPredicate stop,
                   std::function<void(WorkOutcome)> done);
void StartAllPairs(Metric metric, std::span<const VectorView> left, std::span<const VectorView> right, int64_t dim,
                   std::span<float> scores, WorkerPool& pool, StopPredicate stop,
                   std::function<void(WorkOutcome)> done);

}  // namespace embedding
