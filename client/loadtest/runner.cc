#include "client/loadtest/runner.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "client/loadtest/lane.h"
#include "client/loadtest/random.h"

namespace embedding::loadtest {
namespace {

// Until the threads of all connections are up.
constexpr int64_t kLeadNs = 20'000'000;

struct InFlightSamples {
  double sum = 0;
  int64_t count = 0;
  int64_t max = 0;
};

// Samples the calls in flight at uneven times, since even ones would beat with constant arrivals.
void SampleInFlight(const RunState& state, std::span<const std::unique_ptr<Lane>> lanes, const std::atomic<bool>& ended,
                    InFlightSamples& samples) {
  Random random(state.plan.seed, ~uint64_t{1});
  int64_t next = state.measure_from_ns;
  while (true) {
    next += static_cast<int64_t>(static_cast<double>(state.plan.sample_interval_ns) * (0.5 + random.NextUnit()));
    // Short naps, so that a run that ends early is not waited for.
    while (!ended.load() && state.clock.NowNs() < next) {
      state.clock.SleepUntil(std::min(next, state.clock.NowNs() + 2 * state.plan.sample_interval_ns));
    }
    if (ended.load() || next >= state.measure_until_ns) return;
    int64_t in_flight = 0;
    for (const std::unique_ptr<Lane>& lane : lanes) in_flight += lane->in_flight();
    samples.sum += static_cast<double>(in_flight);
    samples.max = std::max(samples.max, in_flight);
    ++samples.count;
  }
}

}  // namespace

int SlotsOf(const RunPlan& plan, int count, int index) {
  const int total = plan.open_loop ? plan.max_in_flight : plan.concurrency;
  return total / count + (index < total % count ? 1 : 0);
}

RunResult RunLoadTest(const RunPlan& plan, std::span<Transport* const> connections, Clock& clock,
                      const std::atomic<bool>& stop) {
  RunState state{.plan = plan, .clock = clock, .stop = stop};
  state.num_lanes = static_cast<int>(connections.size());
  state.start_ns = clock.NowNs() + kLeadNs;
  state.measure_from_ns = state.start_ns + plan.warmup_ns;
  state.measure_until_ns = plan.duration_ns > 0 ? state.measure_from_ns + plan.duration_ns : Transport::kForever;

  std::vector<std::unique_ptr<Lane>> lanes;
  for (Transport* const connection : connections) {
    lanes.push_back(std::make_unique<Lane>(state, *connection, static_cast<int>(lanes.size())));
  }
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Lane>& lane : lanes) {
    if (plan.open_loop) {
      threads.emplace_back(&Lane::ReceiveOpenLoop, lane.get());
      threads.emplace_back(&Lane::SendOpenLoop, lane.get());
    } else {
      threads.emplace_back(&Lane::RunClosedLoop, lane.get());
    }
  }
  InFlightSamples samples;
  std::atomic<bool> ended{false};
  std::thread sampler;
  if (plan.sample_interval_ns > 0) {
    sampler = std::thread([&] { SampleInFlight(state, lanes, ended, samples); });
  }
  for (std::thread& thread : threads) thread.join();
  ended.store(true);
  if (sampler.joinable()) sampler.join();

  RunResult result;
  result.interrupted = stop.load();
  // A run that was cut short is measured until its last answer, others at least for as long as they were meant to last.
  if (!result.interrupted) result.measured_ns = plan.duration_ns;
  for (const std::unique_ptr<Lane>& lane : lanes) lane->AddTo(result);
  if (samples.count > 0) {
    result.mean_in_flight = samples.sum / static_cast<double>(samples.count);
    result.max_in_flight_seen = samples.max;
  }
  return result;
}

}  // namespace embedding::loadtest
