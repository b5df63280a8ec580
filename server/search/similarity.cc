#include "server/search/similarity.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/kernels/canonical.h"
#include "server/search/scan_blocks.h"

namespace embedding {
namespace {

// What a pair costs beside its elements, in multiply-adds.
constexpr int64_t kPairWork = 64;
// Multiply-adds between two polls of the stop predicate: some 100 microseconds.
constexpr int64_t kBlockWork = int64_t{1} << 19;
// Vectors on the right that a tile of all pairs holds widened to double, and the doubles that they may take together.
constexpr int64_t kTileColumns = 32;
constexpr int64_t kTileDoubles = int64_t{1} << 16;

int64_t BlockSize(int64_t dim) { return std::clamp<int64_t>(kBlockWork / (dim + kPairWork), 1, 4096); }

// norms[i] = canonical sum of squares of vectors[i]. Neighbours of one type go to the kernel together.
void SquaredNorms(std::span<const VectorView> vectors, size_t dim, double* norms) {
  constexpr size_t kPiece = 64;
  const void* addresses[kPiece];
  size_t i = 0;
  while (i < vectors.size()) {
    const ElementType type = vectors[i].type;
    size_t n = 0;
    for (; n < kPiece && i + n < vectors.size() && vectors[i + n].type == type; ++n) addresses[n] = vectors[i + n].data;
    CanonicalSquaredNorms(type, addresses, n, dim, norms + i);
    i += n;
  }
}

// State that the lanes of one call share; the last step destroys it.
struct Work {
  Work(Metric the_metric, std::span<const VectorView> the_left, std::span<const VectorView> the_right, int64_t the_dim,
       std::span<float> the_scores, StopPredicate the_stop, std::function<void(WorkOutcome)> the_done)
      : metric(the_metric),
        left(the_left),
        right(the_right),
        dim(static_cast<size_t>(the_dim)),
        scores(the_scores),
        stop(std::move(the_stop)),
        done(std::move(the_done)) {}

  void Finish() { done(stop.stopped() ? WorkOutcome::kStopped : WorkOutcome::kComplete); }

  const Metric metric;
  const std::span<const VectorView> left;
  const std::span<const VectorView> right;
  const size_t dim;
  const std::span<float> scores;
  StopPoll stop;
  std::function<void(WorkOutcome)> done;

  std::optional<BlockCounter> blocks;
  // All pairs by cosine: each vector's canonical sum of squares, computed once.
  std::vector<double> left_norms;
  std::vector<double> right_norms;
};

void PairwiseLane(Work& work) {
  const size_t dim = work.dim;
  const bool is_cosine = work.metric == Metric::kCosine;
  std::vector<double> widened(dim);
  const auto block = static_cast<size_t>(work.blocks->block_size());
  std::vector<double> left_norms(is_cosine ? block : 0);
  std::vector<double> right_norms(is_cosine ? block : 0);
  int64_t begin;
  int64_t end;
  while (!work.stop.ShouldStop() && work.blocks->Take(&begin, &end)) {
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    if (is_cosine) {
      SquaredNorms(work.left.subspan(first, count), dim, left_norms.data());
      SquaredNorms(work.right.subspan(first, count), dim, right_norms.data());
    }
    for (size_t i = 0; i < count; ++i) {
      const VectorView left = work.left[first + i];
      const VectorView right = work.right[first + i];
      WidenToF64(left.type, left.data, dim, widened.data());
      double sum;
      if (work.metric == Metric::kEuclidean) {
        CanonicalSquaredL2OneToMany(widened.data(), right.type, &right.data, 1, dim, &sum);
      } else {
        CanonicalDotOneToMany(widened.data(), right.type, &right.data, 1, dim, &sum);
      }
      work.scores[first + i] =
          ScoreFromSums(work.metric, sum, is_cosine ? left_norms[i] : 0, is_cosine ? right_norms[i] : 0);
    }
  }
}

void NormsLane(Work& work) {
  const size_t num_left = work.left.size();
  int64_t begin;
  int64_t end;
  // Vectors of both sides in one row: the left ones come first.
  while (!work.stop.ShouldStop() && work.blocks->Take(&begin, &end)) {
    const auto first = static_cast<size_t>(begin);
    const auto last = static_cast<size_t>(end);
    if (first < num_left) {
      SquaredNorms(work.left.subspan(first, std::min(last, num_left) - first), work.dim, &work.left_norms[first]);
    }
    if (last > num_left) {
      const size_t from = std::max(first, num_left) - num_left;
      SquaredNorms(work.right.subspan(from, last - num_left - from), work.dim, &work.right_norms[from]);
    }
  }
}

// The matrix of scores as tiles of some columns and as many rows as the work between two polls allows.
struct Tiling {
  int64_t columns;  // of a tile
  int64_t rows;     // of a tile
  int64_t across;   // tiles beside each other
  int64_t down;     // tiles below each other
};

Tiling TilingOf(const Work& work) {
  const auto dim = static_cast<int64_t>(work.dim);
  Tiling tiling;
  tiling.columns = std::clamp<int64_t>(kTileDoubles / dim, 4, kTileColumns);
  tiling.rows = std::max<int64_t>(1, kBlockWork / (tiling.columns * (dim + kPairWork)));
  tiling.across = (static_cast<int64_t>(work.right.size()) + tiling.columns - 1) / tiling.columns;
  tiling.down = (static_cast<int64_t>(work.left.size()) + tiling.rows - 1) / tiling.rows;
  return tiling;
}

void AllPairsLane(Work& work) {
  const size_t dim = work.dim;
  const Tiling tiling = TilingOf(work);
  const bool is_cosine = work.metric == Metric::kCosine;
  std::vector<double> left(dim);
  std::vector<double> right(dim * static_cast<size_t>(tiling.columns));
  const void* addresses[kTileColumns];
  double sums[kTileColumns];
  int64_t tile;
  int64_t next_tile;
  while (!work.stop.ShouldStop() && work.blocks->Take(&tile, &next_tile)) {
    const auto column = static_cast<size_t>(tile % tiling.across * tiling.columns);
    const auto row = static_cast<size_t>(tile / tiling.across * tiling.rows);
    const size_t num_columns = std::min(static_cast<size_t>(tiling.columns), work.right.size() - column);
    const size_t num_rows = std::min(static_cast<size_t>(tiling.rows), work.left.size() - row);
    for (size_t c = 0; c < num_columns; ++c) {
      const VectorView view = work.right[column + c];
      WidenToF64(view.type, view.data, dim, &right[c * dim]);
      addresses[c] = &right[c * dim];
    }
    for (size_t r = row; r < row + num_rows; ++r) {
      WidenToF64(work.left[r].type, work.left[r].data, dim, left.data());
      if (work.metric == Metric::kEuclidean) {
        CanonicalSquaredL2OneToMany(left.data(), ElementType::kF64, addresses, num_columns, dim, sums);
      } else {
        CanonicalDotOneToMany(left.data(), ElementType::kF64, addresses, num_columns, dim, sums);
      }
      float* scores = &work.scores[r * work.right.size() + column];
      for (size_t c = 0; c < num_columns; ++c) {
        scores[c] = ScoreFromSums(work.metric, sums[c], is_cosine ? work.left_norms[r] : 0,
                                  is_cosine ? work.right_norms[column + c] : 0);
      }
    }
  }
}

// Runs the lanes, then `then`: here if the whole call is little work, else as a job.
template <typename Then>
void Run(std::shared_ptr<Work> work, int64_t amount, int64_t total, WorkerPool& pool, void (*lane)(Work&), Then then) {
  if (total <= kInlineWork) {
    lane(*work);
    then();
    return;
  }
  pool.Submit(
      LanesFor(amount, pool.num_threads()), [work, lane](int) { lane(*work); }, std::move(then));
}

}  // namespace

void StartPairwise(Metric metric, std::span<const VectorView> left, std::span<const VectorView> right, int64_t dim,
                   std::span<float> scores, WorkerPool& pool, StopPredicate stop,
                   std::function<void(WorkOutcome)> done) {
  auto work = std::make_shared<Work>(metric, left, right, dim, scores, std::move(stop), std::move(done));
  const auto num_pairs = static_cast<int64_t>(left.size());
  work->blocks.emplace(num_pairs, BlockSize(dim));
  const int64_t total = num_pairs * (dim + kPairWork);
  Run(work, total, total, pool, PairwiseLane, [work] { work->Finish(); });
}

void StartAllPairs(Metric metric, std::span<const VectorView> left, std::span<const VectorView> right, int64_t dim,
                   std::span<float> scores, WorkerPool& pool, StopPredicate stop,
                   std::function<void(WorkOutcome)> done) {
  auto work = std::make_shared<Work>(metric, left, right, dim, scores, std::move(stop), std::move(done));
  const auto num_vectors = static_cast<int64_t>(left.size() + right.size());
  const int64_t pairs_work = static_cast<int64_t>(left.size()) * static_cast<int64_t>(right.size()) * (dim + kPairWork);
  const int64_t norms_work = metric == Metric::kCosine ? num_vectors * dim : 0;
  const int64_t total = pairs_work + norms_work;
  auto score_pairs = [work, pairs_work, total, &pool] {
    const Tiling tiling = TilingOf(*work);
    work->blocks.emplace(tiling.across * tiling.down, 1);
    Run(work, pairs_work, total, pool, AllPairsLane, [work] { work->Finish(); });
  };
  if (metric != Metric::kCosine) return score_pairs();
  work->left_norms.resize(left.size());
  work->right_norms.resize(right.size());
  work->blocks.emplace(num_vectors, BlockSize(dim));
  Run(work, norms_work, total, pool, NormsLane, std::move(score_pairs));
}

}  // namespace embedding
