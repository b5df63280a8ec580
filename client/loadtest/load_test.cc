#include "client/loadtest/load_test.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/loadtest/grpc_transport.h"
#include "client/loadtest/report.h"
#include "client/loadtest/server_facts.h"
#include "client/loadtest/stream_transport.h"

namespace embedding::loadtest {
namespace {

constexpr int kUnexpected = 1;
constexpr int kUsage = 2;
constexpr int kStatusBase = 64;
constexpr int kInterrupted = 130;
// For recomputing the scores of kept answers after the run.
constexpr int64_t kRecomputeNs = 10'000'000'000;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// "DTYPE_F16" -> "F16".
std::string ShortName(v1::Dtype dtype) {
  const std::string& name = v1::Dtype_Name(dtype);
  return name.substr(name.find('_') + 1);
}

ReportContext Describe(const LoadTestOptions& options, const ServerFacts& facts) {
  ReportContext context;
  context.program_version = EMBEDDING_VERSION;
  context.started_at = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  context.options = options.effective;
  context.server_version = facts.info.version();
  context.server_revision = facts.info.revision();
  context.simd_target = facts.info.simd_target();
  context.table_name = facts.table.name();
  context.table_version = facts.table.serving_version();
  context.rows = facts.table.rows();
  context.dim = facts.table.dim();
  context.dtype = ShortName(facts.table.dtype());
  context.fingerprint = facts.table.fingerprint();
  context.cpu = CpuModel();
  context.cpus = UsableCpus();
  utsname system{};
  if (uname(&system) == 0) context.kernel = absl::StrCat(system.sysname, " ", system.release);
  context.plan = options.plan;
  context.connections = options.connections;
  context.batch_size = options.workload.batch_size;
  switch (options.workload.rpc) {
    case Rpc::kLookup:
      context.rpc = options.workload.stream ? "LookupStream" : "Lookup";
      context.item = "rows";
      break;
    case Rpc::kSimilarity:
      context.rpc = "Similarity";
      context.item = "pairs";
      break;
    case Rpc::kNeighbours:
      context.rpc = "NearestNeighbour";
      context.item = "queries";
      break;
  }
  context.thresholds = options.thresholds;
  context.verification.enabled = options.verify;
  return context;
}

class LoadTest {
 public:
  LoadTest(const LoadTestOptions& options, const std::atomic<bool>& stop, std::ostream& out, std::ostream& err)
      : options_(options), stop_(stop), out_(out), err_(err) {}

  int Perform() {
    // Before anything is measured: an hour's result must not be lost to a mistyped path.
    if (!options_.report_path.empty() && options_.report_path != "-") {
      file_.open(options_.report_path);
      if (!file_) return Complain(kUsage, absl::StrCat("--report ", options_.report_path, ": ", std::strerror(errno)));
    }
    ClientOptions client;
    client.address = options_.address;
    client.deadline = options_.deadline;
    absl::StatusOr<ServerFacts> facts = AskServer(CreateClientChannel(client), options_);
    if (!facts.ok()) return Complain(facts.status());
    if (absl::Status status = CheckLimits(options_, *facts); !status.ok()) {
      return Complain(kUsage, std::string(status.message()));
    }
    client.max_receive_bytes =
        std::min<int64_t>(std::max(client.max_receive_bytes, facts->info.limits().max_response_bytes()), INT32_MAX);
    if (absl::Status status = Connect(client); !status.ok()) return Complain(status);
    if (options_.verify) {
      Say(absl::StrCat("fetching ", facts->table.rows(), " rows, one per call, to verify answers against"));
      auto reference = FetchReference(channels_.front(), options_, facts->table, stop_);
      if (stop_.load()) return Complain(kInterrupted, "interrupted before the test began");
      if (!reference.ok()) return Complain(reference.status());
      reference_ = *std::move(reference);
    }
    return Measure(*facts);
  }

 private:
  void Say(const std::string& line) { err_ << "embedding-loadtest: " << line << std::endl; }
  int Complain(int exit_code, const std::string& line) {
    Say(line);
    return exit_code;
  }
  int Complain(const absl::Status& status) {
    const int code = static_cast<int>(status.code());
    return Complain(kStatusBase + code, absl::StrCat(CodeName(code), ": ", status.message()));
  }

  absl::Status Connect(const ClientOptions& client) {
    const auto until = std::chrono::system_clock::now() + options_.deadline;
    for (int i = 0; i < options_.connections; ++i) {
      channels_.push_back(CreateClientChannel(client));
      channels_.back()->GetState(/*try_to_connect=*/true);
    }
    for (int i = 0; i < options_.connections; ++i) {
      if (channels_[static_cast<size_t>(i)]->WaitForConnected(until)) continue;
      return absl::UnavailableError(absl::StrCat("connection ", i + 1, " of ", options_.connections, " to ",
                                                 options_.address, " was not made within ", options_.deadline.count(),
                                                 " ms"));
    }
    return absl::OkStatus();
  }

  int Measure(const ServerFacts& facts) {
    const Workload workload(options_.workload, facts.table);
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<const AnswerChecker*> checkers;
    std::vector<Transport*> connections;
    for (int i = 0; i < options_.connections; ++i) {
      const auto& channel = channels_[static_cast<size_t>(i)];
      const int slots = SlotsOf(options_.plan, options_.connections, i);
      if (options_.workload.stream) {
        auto stream = std::make_unique<StreamTransport>(channel, workload, reference_.get(), slots);
        checkers.push_back(&stream->checker());
        transports.push_back(std::move(stream));
      } else {
        auto calls = std::make_unique<GrpcTransport>(channel, workload, reference_.get(), slots, options_.deadline);
        checkers.push_back(&calls->checker());
        transports.push_back(std::move(calls));
      }
      connections.push_back(transports.back().get());
    }
    ReportContext context = Describe(options_, facts);
    Announce();
    const double cpu_before = CpuSeconds();
    const int64_t started_ns = clock_.NowNs();
    RunResult result = RunLoadTest(options_.plan, connections, clock_, stop_);
    context.cpu_seconds = CpuSeconds() - cpu_before;
    context.wall_seconds = static_cast<double>(clock_.NowNs() - started_ns) / 1e9;
    const int64_t recompute_until = clock_.NowNs() + kRecomputeNs;
    for (const std::unique_ptr<Transport>& transport : transports) context.bytes_sent += transport->bytes_sent();
    for (const AnswerChecker* checker : checkers) {
      const AnswerChecker::KeptChecks checks = checker->CheckKept(clock_, recompute_until);
      context.verification.kept_verified += checks.verified;
      context.verification.kept_not_reached += checks.not_reached;
      context.verification.closest_due += checks.closest_due;
      context.verification.closest_found += checks.closest_found;
      result.mismatches += checks.mismatches;
      if (result.first_complaint.empty()) result.first_complaint = checks.first_complaint;
    }
    context.exit_code = ExitCodeOf(options_.thresholds, result);
    return Report(context, result);
  }

  void Announce() {
    const auto seconds = [](int64_t ns) { return absl::StrCat(absl::FormatDuration(absl::Nanoseconds(ns))); };
    const RunPlan& plan = options_.plan;
    Say(absl::StrCat("warm-up ", seconds(plan.warmup_ns), ", then measuring ",
                     plan.requests > 0 ? absl::StrCat(plan.requests, " calls") : seconds(plan.duration_ns)));
  }

  int Report(const ReportContext& context, const RunResult& result) {
    const bool json_on_stdout = options_.json || options_.report_path == "-";
    if (!options_.json) (json_on_stdout ? err_ : out_) << TextReport(context, result) << std::flush;
    if (json_on_stdout) out_ << JsonReport(context, result) << std::flush;
    if (file_.is_open()) {
      file_ << JsonReport(context, result);
      file_.close();
      if (!file_) return Complain(kUnexpected, absl::StrCat("could not write the report to ", options_.report_path));
    }
    if (!out_) return Complain(kUnexpected, "could not write the report to stdout");
    return context.exit_code;
  }

  const LoadTestOptions& options_;
  const std::atomic<bool>& stop_;
  std::ostream& out_;
  std::ostream& err_;
  MonotonicClock clock_;
  std::ofstream file_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::unique_ptr<ReferenceTable> reference_;
};

}  // namespace

int PerformLoadTest(const LoadTestOptions& options, const std::atomic<bool>& stop, std::ostream& out,
                    std::ostream& err) {
  return LoadTest(options, stop, out, err).Perform();
}

}  // namespace embedding::loadtest
