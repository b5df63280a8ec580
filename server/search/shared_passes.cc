#include "server/search/shared_passes.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "server/exec/mutex.h"

namespace embedding {
namespace {

// Entries (of about 16 bytes) that a group's lanes may hold before survivors pile up.
constexpr int64_t kGroupEntries = int64_t{1} << 22;
// What a query costs beside its scan, in multiply-adds.
constexpr int64_t kQueryWork = 2048;
// Steps for an id of a filter or an exclusion, which are sorted or set in a bitmap.
constexpr int64_t kFilterIdWork = 16;

int64_t FilterWork(const NeighbourQuery& query, int64_t num_rows) {
  size_t ids = query.filter.deny.size();
  if (query.filter.allow.has_value()) ids += query.filter.allow->size();
  const int64_t bitmap_words = ids == 0 ? 0 : num_rows / 64;
  for (const std::vector<int64_t>& rows : query.excluded_rows) ids += rows.size();
  return static_cast<int64_t>(ids) * kFilterIdWork + bitmap_words;
}

}  // namespace

// Outlives the index as long as a job that looks for waiting callers is on its way; rows_ is read for callers alone.
class SharedPasses::Queue : public std::enable_shared_from_this<Queue> {
 public:
  using CallerPtr = std::shared_ptr<SearchCaller>;

  Queue(const SearchedRows& rows, bool share) : rows_(rows), share_(share) {}

  int64_t num_rows() const { return rows_.table.num_rows(); }
  int64_t dim() const { return rows_.table.dim(); }

  // on_worker: as of SearchGroup::Start.
  void Prepare(const CallerPtr& caller, bool may_share, bool on_worker) {
    NeighbourQuery& query = caller->query;
    const int64_t num_rows = rows_.table.num_rows();
    caller->eligible.emplace(query.filter, num_rows);
    const EligibleRows& eligible = *caller->eligible;
    caller->k = std::min(query.k, eligible.count());
    for (std::vector<int64_t>& rows : query.excluded_rows) std::sort(rows.begin(), rows.end());
    if (caller->k == 0 || caller->num_left() == 0) return caller->End();
    caller->shares = share_ && may_share && eligible.list() == nullptr &&
                     2 * (eligible.end() - eligible.begin()) >= num_rows && PassPays(rows_, eligible, caller->k);
    if (!caller->shares) return StartAlone(caller, on_worker);
    {
      MutexLock lock(&mutex_);
      waiting_.push_back(caller);
      if (!IsRoom(caller->pool)) return;
      lanes_running_ += kLanesReserved;
    }
    StartGroup(caller->pool, on_worker);
  }

 private:
  using Members = std::vector<SearchGroup::Member>;

  // Threads that a group is taken to use before it is formed.
  static constexpr int kLanesReserved = 1;

  size_t QueriesThatFit(const SearchCaller& caller, int64_t entries) const {
    const bool is_listed = caller.eligible->list() != nullptr;
    const int64_t of_query = is_listed ? caller.eligible->count() : (2 * caller.k + 64) * caller.pool.num_threads();
    return static_cast<size_t>(std::max<int64_t>(0, entries / of_query));
  }

  // Groups that do not share: one after the other, beside those that do.
  void StartAlone(const CallerPtr& caller, bool on_worker) {
    const size_t most = std::clamp<size_t>(QueriesThatFit(*caller, kGroupEntries), 1, kGroupQueries);
    SearchGroup::Start(rows_, {{caller, caller->next_query, std::min(most, caller->num_left())}}, caller->pool,
                       on_worker, {}, [self = shared_from_this()](Members members, bool) {
                         const SearchGroup::Member& member = members.front();
                         if (member.was_told) return;
                         const CallerPtr& one = member.caller;
                         if (one->stop.stopped() || one->num_left() == 0) return one->End();
                         self->StartAlone(one, /*on_worker=*/true);
                       });
  }

  bool IsRoom(const WorkerPool& pool) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lanes_running_ + kLanesReserved <= pool.num_threads();
  }

  // Forms a group of those that wait and starts it. kLanesReserved are counted as running.
  void StartGroup(WorkerPool& pool, bool on_worker) {
    EndStopped();
    Members members;
    int lanes = 0;
    bool more = false;
    {
      MutexLock lock(&mutex_);
      members = TakeMembers();
      if (!members.empty()) {
        int64_t work = 0;
        for (const SearchGroup::Member& member : members) {
          work += rows_.table.num_rows() * rows_.table.dim() * static_cast<int64_t>(member.count);
        }
        lanes = LanesFor(work, pool.num_threads());
      }
      lanes_running_ += lanes - kLanesReserved;
      more = !members.empty() && !waiting_.empty() && IsRoom(pool);
      if (more) lanes_running_ += kLanesReserved;
    }
    if (members.empty()) return;
    if (more) StartGroupOnWorker(pool);
    SearchGroup::Start(
        rows_, std::move(members), pool, on_worker,
        [self = shared_from_this()] {
          if (self->is_asking_.exchange(true)) return;  // one thread at a time is enough
          self->EndStopped();
          self->is_asking_.store(false);
        },
        [self = shared_from_this(), lanes, &pool](Members done, bool last) {
          self->Release(std::move(done), last, lanes, pool);
        });
  }

  // As a job of its own. kLanesReserved are counted as running.
  void StartGroupOnWorker(WorkerPool& pool) {
    pool.Submit(
        1, [](int) {}, [self = shared_from_this(), &pool] { self->StartGroup(pool, /*on_worker=*/true); });
  }

  Members TakeMembers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Members members;
    if (waiting_.empty()) return members;
    const Metric metric = waiting_.front()->query.metric;
    std::vector<size_t> sharers;  // of waiting_
    for (size_t i = 0; i < waiting_.size() && sharers.size() < kGroupQueries; ++i) {
      if (waiting_[i]->query.metric == metric) sharers.push_back(i);
    }
    size_t room = kGroupQueries;
    int64_t entries = kGroupEntries;
    std::vector<size_t> counts(sharers.size());
    const auto take = [&](size_t i, const SearchCaller& caller, size_t most) {
      size_t fitting = QueriesThatFit(caller, entries);
      if (i == 0 && counts[0] == 0) fitting = std::max<size_t>(fitting, 1);
      const size_t count = std::min({most, room, caller.num_left() - counts[i], fitting});
      counts[i] += count;
      room -= count;
      entries -= static_cast<int64_t>(count) * (2 * caller.k + 64) * caller.pool.num_threads();
    };
    for (size_t i = 0; i < sharers.size(); ++i) take(i, *waiting_[sharers[i]], kGroupQueries / sharers.size());
    for (size_t i = 0; i < sharers.size(); ++i) take(i, *waiting_[sharers[i]], kGroupQueries);
    for (size_t i = 0; i < sharers.size(); ++i) {
      if (counts[i] == 0) continue;
      CallerPtr& caller = waiting_[sharers[i]];
      members.push_back({caller, caller->next_query, counts[i]});
      caller = nullptr;
    }
    std::erase(waiting_, nullptr);
    return members;
  }

  void Release(Members members, bool last, int lanes, WorkerPool& pool) {
    std::vector<CallerPtr> ended;
    bool start = false;
    {
      MutexLock lock(&mutex_);
      for (SearchGroup::Member& member : members) {
        if (member.was_told) continue;
        const bool is_over = member.caller->stop.stopped() || member.caller->num_left() == 0;
        if (is_over) {
          ended.push_back(std::move(member.caller));
        } else {
          waiting_.push_back(std::move(member.caller));
        }
      }
      if (last) lanes_running_ -= lanes;
      start = !waiting_.empty() && IsRoom(pool);
      if (start) lanes_running_ += kLanesReserved;
    }
    // As a job of its own, before the answers: whoever asks again while they are written may still join.
    if (start) StartGroupOnWorker(pool);
    for (const CallerPtr& caller : ended) caller->End();
  }

  void EndStopped() {
    std::vector<CallerPtr> stopped;
    {
      MutexLock lock(&mutex_);
      for (CallerPtr& caller : waiting_) {
        if (caller->stop.ShouldStop()) stopped.push_back(std::move(caller));
      }
      std::erase(waiting_, nullptr);
    }
    for (const CallerPtr& caller : stopped) caller->End();
  }

  const SearchedRows rows_;
  const bool share_;
  std::atomic<bool> is_asking_{false};  // the waiting callers whether they want no more
  Mutex mutex_;
  std::deque<CallerPtr> waiting_ ABSL_GUARDED_BY(mutex_);  // in the order of arrival
  int lanes_running_ ABSL_GUARDED_BY(mutex_) = 0;          // of groups that share
};

SharedPasses::SharedPasses(const SearchedRows& rows, bool share) : queue_(std::make_shared<Queue>(rows, share)) {}

SharedPasses::~SharedPasses() = default;

void SharedPasses::Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                         std::function<void(NeighbourResult)> done) {
  const std::shared_ptr<Queue> queue = queue_;  // the index may be gone once the caller has been answered
  const int64_t num_rows = queue->num_rows();
  const int64_t dim = queue->dim();
  const auto num_queries = static_cast<int64_t>(query.queries.size());
  const int64_t filter_work = FilterWork(query, num_rows);
  auto caller = std::make_shared<SearchCaller>(std::move(query), pool, std::move(stop), std::move(done));
  // The whole search here and now.
  if (num_queries * (num_rows * dim + kQueryWork) + filter_work <= kInlineWork) {
    return queue->Prepare(caller, /*may_share=*/false, /*on_worker=*/true);
  }
  // What comes before the scan here, so that a caller which has to wait is seen to give up.
  if (num_queries * (4 * dim + kQueryWork / 2) + filter_work <= kInlineWork) {
    return queue->Prepare(caller, /*may_share=*/true, /*on_worker=*/false);
  }
  pool.Submit(
      1, [](int) {},
      [queue, caller = std::move(caller)] { queue->Prepare(caller, /*may_share=*/true, /*on_worker=*/true); });
}

}  // namespace embedding
