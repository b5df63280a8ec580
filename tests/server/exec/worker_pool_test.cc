#include "server/exec/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "server/exec/mutex.h"

namespace embedding {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(WorkerPoolTest, RunsEveryLaneOnceThenDone) {
  WorkerPool pool(3);
  std::vector<std::atomic<int>> runs(100);
  std::promise<int> all_runs;
  pool.Submit(
      100, [&runs](int lane) { runs[static_cast<size_t>(lane)].fetch_add(1); },
      [&] {
        int sum = 0;
        for (const auto& count : runs) sum += count.load();
        all_runs.set_value(sum);
      });
  EXPECT_EQ(all_runs.get_future().get(), 100);
  for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
}

TEST(WorkerPoolTest, JobsOfOneWorkerRunInOrderOfSubmission) {
  WorkerPool pool(1);
  std::vector<int> order;
  for (int job = 0; job < 3; ++job) {
    pool.Submit(
        1, [&order, job](int) { order.push_back(job); }, [] {});
  }
  pool.RunAndWait(1, [](int) {});
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(WorkerPoolTest, LanesOfOneJobRunAtTheSameTime) {
  WorkerPool pool(2);
  // Each lane waits for the other to have begun: with one worker on the job, this would not end.
  std::promise<void> begun[2];
  std::shared_future<void> other[2] = {begun[1].get_future().share(), begun[0].get_future().share()};
  pool.RunAndWait(2, [&](int lane) {
    begun[lane].set_value();
    other[lane].wait();
  });
}

TEST(WorkerPoolTest, DoneSeesWhatAllLanesWrote) {
  WorkerPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> written(4, 0);  // not atomic: the pool orders lanes before done
    std::promise<std::vector<int>> seen;
    pool.Submit(
        4, [&written](int lane) { written[static_cast<size_t>(lane)] = 1; }, [&] { seen.set_value(written); });
    EXPECT_THAT(seen.get_future().get(), Each(1));
  }
}

TEST(WorkerPoolTest, DestructorRunsWhatWasSubmittedAndWhatThatSubmits) {
  std::atomic<int> done{0};
  {
    WorkerPool pool(2);
    for (int job = 0; job < 50; ++job) {
      pool.Submit(
          2, [](int) {},
          [&pool, &done] {
            pool.Submit(
                1, [](int) {}, [&done] { done.fetch_add(1); });
          });
    }
  }
  EXPECT_EQ(done.load(), 50);
}

TEST(WorkerPoolTest, ManyThreadsMaySubmit) {
  WorkerPool pool(2);
  std::atomic<int> lanes{0};
  std::vector<std::thread> submitters;
  submitters.reserve(4);
  for (int i = 0; i < 4; ++i) {
    submitters.emplace_back([&] {
      for (int job = 0; job < 50; ++job) pool.RunAndWait(3, [&lanes](int) { lanes.fetch_add(1); });
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_EQ(lanes.load(), 4 * 50 * 3);
}

TEST(WorkerPoolTest, LanesRunOnWorkersAlone) {
  WorkerPool pool(2);
  Mutex mutex;
  std::set<std::thread::id> threads;
  pool.RunAndWait(20, [&](int) {
    MutexLock lock(&mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(threads.size(), 2u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST(WorkerPoolTest, BackgroundThreadsLeaveTheCpuToOthers) {
  WorkerPool background(1, WorkerPool::Priority::kBackground);
  background.RunAndWait(1, [](int) {
    EXPECT_GE(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), 10);
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  });
  // The creator stays what it was, and so do its other workers.
  const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  WorkerPool normal(1);
  normal.RunAndWait(1, [nice](int) {
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), nice);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  });
}

}  // namespace
}  // namespace embedding
