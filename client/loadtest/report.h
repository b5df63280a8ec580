// What a load test says in the end: one report, as text for people and as JSON for programs.
//
// JSON schema 1. Times are integers of nanoseconds (suffix _ns) or seconds; counts are of the measured part unless they
// say otherwise; a field whose value does not exist in this mode is absent.
//   tool, schema, version                "embedding-loadtest", 1, program version
//   started_at                           RFC 3339, UTC
//   options                              {flag: value} as strings; --fail-if holds a list
//   server {version, revision, simd_target}, table {name, version, rows, dim, dtype, fingerprint}
//   host {cpu, cpus, kernel}             of the tester
//   mode                                 "open_loop" or "closed_loop"
//   item                                 what a batch is made of: "rows", "pairs" or "queries"
//   measured_seconds, warmup_seconds, warmup_calls, warmup_errors, interrupted
//   offered_per_second, planned, capped  open loop only; capped: sent late because of --max-in-flight
//   sent, answered, failed               answered: ended OK
//   answered_per_second, items_per_second, received_bytes_per_second, sent_bytes_per_second
//   errors [{code, name, count, first_message}]
//   latency                              open loop only: end minus planned send time, of answered calls
//   service                              end minus actual send, of answered calls
//   send_lag                             open loop only: actual send minus planned time
//   own_lag                              open loop only: the same without calls that max_in_flight held back
//     each {count, min_ns, mean_ns, max_ns, percentiles [{p, value_ns, samples_beyond}]}, p = 50, 90, 99, 99.9
//   send_lag_too_high                    open loop only: the tester fell behind, do not trust the percentiles
//   in_flight {mean_sampled, max_sampled, rate_times_mean_service}   the first and last agree (Little's law)
//   tester_cpu {seconds, ns_per_call, cpus_busy}                     of the whole run, warm-up included
//   verification {verified, malformed, mismatches, kept_verified, kept_not_reached, first_complaint, and of
//   approximate searches closest_due, closest_found}; all calls
//   thresholds [{condition, value, holds}]   value in ns, calls per second, a count or a share
//   per_second [{second, answered, failed, max_ns}]   by the time a call ended
//   exit_code
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/loadtest/runner.h"
#include "client/loadtest/threshold.h"

namespace embedding::loadtest {

struct Verification {
  bool enabled = false;
  int64_t kept_verified = 0;     // calls whose scores were recomputed after the run
  int64_t kept_not_reached = 0;  // kept for that, but the time for it was over
  int64_t closest_due = 0;       // of approximate searches: rows that the exact search finds for those calls
  int64_t closest_found = 0;     // those of them that were found
};

// Everything that a report tells beside the measurements.
struct ReportContext {
  std::string program_version;
  std::string started_at;
  std::vector<std::pair<std::string, std::string>> options;
  std::string server_version, server_revision, simd_target;
  std::string table_name, dtype, fingerprint;
  uint64_t table_version = 0;
  int64_t rows = 0, dim = 0;
  std::string cpu, kernel;
  int cpus = 0;
  RunPlan plan;
  int connections = 1;
  std::string rpc;   // "Lookup"
  std::string item;  // "rows"
  int64_t batch_size = 1;
  int64_t bytes_sent = 0;   // of all calls, warm-up included
  double cpu_seconds = 0;   // of this process during the run
  double wall_seconds = 0;  // of the run, warm-up included
  Verification verification;
  std::vector<Threshold> thresholds;
  int exit_code = 0;
};

std::string TextReport(const ReportContext& context, const RunResult& result);
std::string JsonReport(const ReportContext& context, const RunResult& result);

// True when the tester itself sent late: the p99 of its own lag is above 5 % of the latency's p50, and above 100 us,
// what the scheduler of a shared machine may cost.
bool SendLagTooHigh(const RunResult& result);

// The process's exit code. The worst news decides: 1 a wrong answer; 130 interrupted; 64+N no call answered, N the most
// frequent code; 99 a threshold's condition holds; else 0.
int ExitCodeOf(const std::vector<Threshold>& thresholds, const RunResult& result);

// Name of a gRPC status code, such as "UNAVAILABLE".
std::string CodeName(int code);

}  // namespace embedding::loadtest
