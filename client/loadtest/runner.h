// Sends the calls of one load test and measures them.
//
// Open loop: the send times are planned beforehand and kept whatever the server does, so latency counts from the
// planned time: a call that had to wait for its turn behind a stall has waited. Closed loop: a fixed number of callers,
// each sending when its last call was answered; a stall stops the senders too, so its percentiles are service times and
// say nothing of what callers with a clock of their own would see.
//
// Threads: one per connection that receives (and sends, in the closed loop), and one per connection that sends in the
// open loop, so that no answer delays a planned send.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "client/loadtest/histogram.h"
#include "client/loadtest/schedule.h"
#include "client/loadtest/transport.h"

namespace embedding::loadtest {

struct RunPlan {
  bool open_loop = false;
  double rate = 0;                          // open loop: calls per second over all connections
  Arrivals arrivals = Arrivals::kConstant;  // open loop
  uint64_t seed = 1;                        // of the arrivals
  int concurrency = 1;                      // closed loop: calls in flight, at least one per connection
  int max_in_flight = 1;                    // open loop: the most calls in flight, at least one per connection
  int64_t warmup_ns = 0;                    // calls due (open) or sent (closed) before this are sent and not measured
  int64_t duration_ns = 0;                  // of the measured part; 0 = until `requests` are sent
  int64_t requests = 0;                     // measured calls to send; 0 = until the duration is over
  int64_t sample_interval_ns = 0;           // mean gap of the samples of calls in flight; 0 = none are taken
};

struct CodeCount {
  int64_t count = 0;
  std::string first_message;
};

// One second of the measured part, by the time a call ended.
struct SecondStats {
  int64_t answered = 0;
  int64_t failed = 0;
  int64_t max_ns = 0;  // the longest latency (open) or service time (closed)
};

// Counts are of measured calls unless they say otherwise. Histograms hold calls that ended OK.
struct RunResult {
  Histogram latency;   // end minus planned time; open loop only
  Histogram service;   // end minus actual send
  Histogram send_lag;  // actual send minus planned time; of all measured calls; open loop only
  Histogram own_lag;  // send lag that is the tester's own: without calls that waited for a slot, or behind one that did
  int64_t planned = 0;  // open loop: calls due in the measured part, as far as the run came
  int64_t sent = 0;
  int64_t answered = 0;             // ended OK
  std::map<int, CodeCount> errors;  // by gRPC status code
  int64_t warmup_calls = 0;         // not measured
  int64_t warmup_errors = 0;
  int64_t capped = 0;  // open loop: sent late because max_in_flight calls were in flight
  int64_t bytes_received = 0;
  int64_t verified = 0;         // answers compared with the reference, warm-up included
  int64_t malformed = 0;        // warm-up included
  int64_t mismatches = 0;       // warm-up included
  std::string first_complaint;  // about a malformed or mismatching answer
  std::vector<SecondStats> seconds;
  int64_t measured_ns = 0;         // from the end of the warm-up to the last measured answer, at least the duration
  double mean_in_flight = -1;      // mean of samples taken in the measured part; -1 = none were taken
  int64_t max_in_flight_seen = 0;  // among those samples
  bool interrupted = false;

  int64_t failed() const { return sent - answered; }
  double AnsweredPerSecond() const {
    return measured_ns <= 0 ? 0.0 : static_cast<double>(answered) * 1e9 / static_cast<double>(measured_ns);
  }
};

// Runs the plan over the connections and returns when every call has ended. `stop`: set it to end sending early (the
// calls in flight are still waited for). After UNAVAILABLE a closed-loop caller pauses 10 ms, so that a server that
// is gone does not turn the test into a busy loop. Ends within a call deadline of the last send.
// connections: at least 1, each with room for its share of slots: SlotsOf(plan, connections.size(), i).
RunResult RunLoadTest(const RunPlan& plan, std::span<Transport* const> connections, Clock& clock,
                      const std::atomic<bool>& stop);

// Slots that connection `index` of `count` uses: its share of the calls in flight, the first ones rounded up.
int SlotsOf(const RunPlan& plan, int count, int index);

}  // namespace embedding::loadtest
