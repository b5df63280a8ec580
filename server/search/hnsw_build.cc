// Inserts rows into a graph, batch by batch: the rows of a batch look for their neighbours in the graph as it was
// before, all at once, then each list that gets new links is brought up to date by one thread. So no list is read while
// it is written, nothing is locked, and which threads there are changes nothing. Rows of one batch do not see each
// other, but those of all later ones see both, and a batch is small beside what is there.
//
// Sources: Malkov and Yashunin (hnsw_graph.h), algorithms 1 and 4, with the bounds of the lists as hnswlib has them;
// insertion in batches: Manohar and others, "ParlayANN: Scalable and Deterministic Parallel Graph-Based Approximate
// Nearest Neighbor Search Algorithms", arXiv 2305.04359.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "server/search/hnsw_graph.h"
#include "server/search/hnsw_links.h"
#include "server/search/hnsw_walk.h"
#include "server/search/scan_blocks.h"

namespace embedding {
namespace {

constexpr size_t kMostBatchRows = 1024;
// A batch is at most this part of what is there.
constexpr size_t kBatchShare = 16;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the finalizer of SplitMix64, a
// bijection.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A link to be added to the list of `target`; both are numbers of the level.
struct NewLink {
  uint32_t level;
  uint32_t target;
  uint32_t source;

  friend bool operator<(const NewLink& a, const NewLink& b) {
    return std::tie(a.level, a.target, a.source) < std::tie(b.level, b.target, b.source);
  }
};

// What one thread works with.
struct Lane {
  Lane(const HnswRows& rows, const HnswGraph& graph) : walk(rows, graph), chooser(rows) {}
  HnswWalk walk;
  LinkChooser chooser;
  std::vector<NewLink> new_links;
};

class Builder {
 public:
  Builder(const HnswRows& rows, HnswGraph& graph, WorkerPool& pool, const StopPredicate& stop)
      : rows_(rows), graph_(graph), pool_(pool), stop_(stop) {}

  absl::Status Run(const HnswOutsiders& outsiders, const HnswProgress& progress) {
    if (absl::Status s = DrawLevels(outsiders); !s.ok()) return s;
    for (int i = 0; i < pool_.num_threads(); ++i) lanes_.push_back(std::make_unique<Lane>(rows_, graph_));
    const size_t step = std::max<size_t>(1, order_.size() / 100);
    for (size_t done = 1; done < order_.size();) {
      const size_t end = std::min(order_.size(), done + std::clamp<size_t>(done / kBatchShare, 1, kMostBatchRows));
      InsertBatch(done, end);
      LinkBack();
      if (stop_.stopped()) return absl::CancelledError("indexing was stopped");
      if (progress && (done / step != end / step || end == order_.size())) {
        progress(static_cast<int64_t>(end), static_cast<int64_t>(order_.size()));
      }
      done = end;
    }
    return absl::OkStatus();
  }

 private:
  // Each row draws a number from its id. Rows come in by it, the smallest first, and are on level n where it is below
  // 2^64 / m^n: as likely as the source wants it, and the rows of each level are the first ones, so that a row has the
  // same number, its place in the order, on all levels above the lowest. The first one is the entry for good.
  absl::Status DrawLevels(const HnswOutsiders& outsiders) {
    std::vector<std::pair<uint64_t, uint32_t>> drawn;
    for (size_t row = 0; row < outsiders.inside.size(); ++row) {
      if (outsiders.inside[row]) drawn.emplace_back(Mix(row), static_cast<uint32_t>(row));
    }
    std::sort(drawn.begin(), drawn.end());
    for (const auto& entry : drawn) order_.push_back(entry.second);
    std::vector<HnswGraph::Level> upper;
    const auto m = static_cast<uint64_t>(graph_.parameters().m);
    for (uint64_t bound = ~uint64_t{0} / m;; bound /= m) {
      const auto count = static_cast<size_t>(
          std::lower_bound(drawn.begin(), drawn.end(), std::pair(bound, uint32_t{0})) - drawn.begin());
      if (count < 2) break;
      HnswGraph::Level& level = upper.emplace_back();
      for (uint32_t i = 0; i < count; ++i) level.below.push_back(upper.size() == 1 ? order_[i] : i);
      level.links.assign(count * graph_.upper_stride(), 0);
    }
    int64_t entry = -1;  // no rows
    if (!order_.empty()) entry = upper.empty() ? order_[0] : 0;
    return graph_.SetUpper(std::move(upper), entry);
  }

  // The number of a place in the order, on a level.
  uint32_t NumberOf(size_t level, size_t place) const {
    return level == 0 ? order_[place] : static_cast<uint32_t>(place);
  }

  size_t MostLinks(size_t level) const { return (level == 0 ? graph_.lowest_stride() : graph_.upper_stride()) - 1; }
  // On the lowest level lists are filled up to three quarters with rows that lead nowhere new: where rows lie sparsely,
  // a few links in all directions are too few (docs/benchmarks.md has figures); the last quarter is left to rows that
  // come later.
  size_t LeastLinks(size_t level) const { return level == 0 ? MostLinks(0) * 3 / 4 : 1; }

  void InsertBatch(size_t begin, size_t end) {
    BlockCounter places(static_cast<int64_t>(begin), static_cast<int64_t>(end), 1);
    pool_.RunAndWait(pool_.num_threads(), [&](int lane) {
      int64_t place;
      int64_t next;
      while (!stop_.ShouldStop() && places.Take(&place, &next)) {
        Insert(static_cast<size_t>(place), *lanes_[static_cast<size_t>(lane)]);
      }
    });
  }

  // Fills the lists of a row, of which no other row knows yet.
  void Insert(size_t place, Lane& lane) {
    HnswWalk& walk = lane.walk;
    const auto& upper = graph_.upper();
    walk.query().SetRow(order_[place]);
    WalkedRow at = walk.Entry();
    const auto effort = static_cast<size_t>(std::max(graph_.parameters().ef_construction, graph_.parameters().m));
    for (size_t level = upper.size();; --level) {
      const bool is_member = level == 0 || place < upper[level - 1].below.size();
      if (is_member) {
        const std::span<const WalkedRow> found = walk.Search(level, at, effort);
        const std::span<const WalkedRow> chosen =
            lane.chooser.Choose(graph_, level, found, LeastLinks(level), MostLinks(level));
        const uint32_t number = NumberOf(level, place);
        uint32_t* list = graph_.mutable_links(level, number);
        list[0] = static_cast<uint32_t>(chosen.size());
        for (size_t i = 0; i < chosen.size(); ++i) {
          list[i + 1] = chosen[i].row;
          lane.new_links.push_back({static_cast<uint32_t>(level), chosen[i].row, number});
        }
        at = found[0];
      } else {
        at = walk.Climb(level, at);
      }
      if (level == 0) return;
      at.row = upper[level - 1].below[at.row];
    }
  }

  // Those that a batch chose get links to it.
  void LinkBack() {
    links_.clear();
    for (const auto& lane : lanes_) {
      links_.insert(links_.end(), lane->new_links.begin(), lane->new_links.end());
      lane->new_links.clear();
    }
    std::sort(links_.begin(), links_.end());
    std::vector<size_t> groups;
    for (size_t i = 0; i < links_.size(); ++i) {
      if (i == 0 ||
          std::tie(links_[i].level, links_[i].target) != std::tie(links_[i - 1].level, links_[i - 1].target)) {
        groups.push_back(i);
      }
    }
    groups.push_back(links_.size());
    BlockCounter blocks(static_cast<int64_t>(groups.size()) - 1, 16);
    pool_.RunAndWait(pool_.num_threads(), [&](int lane) {
      int64_t begin;
      int64_t end;
      while (!stop_.ShouldStop() && blocks.Take(&begin, &end)) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          Extend({links_.data() + groups[i], groups[i + 1] - groups[i]}, *lanes_[static_cast<size_t>(lane)]);
        }
      }
    });
  }

  // Adds links to one list; once it is full, the best of all are chosen anew.
  void Extend(std::span<const NewLink> links, Lane& lane) {
    const size_t level = links[0].level;
    uint32_t* list = graph_.mutable_links(level, links[0].target);
    if (list[0] + links.size() <= MostLinks(level)) {
      for (const NewLink& link : links) list[++list[0]] = link.source;
      return;
    }
    std::vector<WalkedRow>& all = lane.chooser.candidates();
    all.clear();
    for (uint32_t j = 1; j <= list[0]; ++j) all.push_back({0, list[j]});
    for (const NewLink& link : links) all.push_back({0, link.source});
    lane.chooser.JudgeCandidates(graph_, level, links[0].target);
    const std::span<const WalkedRow> chosen =
        lane.chooser.Choose(graph_, level, all, LeastLinks(level), MostLinks(level));
    list[0] = static_cast<uint32_t>(chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) list[i + 1] = chosen[i].row;
  }

  const HnswRows& rows_;
  HnswGraph& graph_;
  WorkerPool& pool_;
  StopPoll stop_;
  std::vector<uint32_t> order_;  // ids of rows
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<NewLink> links_;
};

}  // namespace

absl::StatusOr<HnswGraph> BuildHnswGraph(const HnswRows& rows, const HnswOutsiders& outsiders,
                                         const HnswParameters& parameters, WorkerPool& pool, const StopPredicate& stop,
                                         const HnswProgress& progress) {
  absl::StatusOr<HnswGraph> graph = HnswGraph::Create(parameters, static_cast<int64_t>(outsiders.inside.size()));
  if (!graph.ok()) return graph;
  if (absl::Status s = Builder(rows, *graph, pool, stop).Run(outsiders, progress); !s.ok()) return s;
  return graph;
}

}  // namespace embedding
