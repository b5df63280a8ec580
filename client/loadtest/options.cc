#include "client/loadtest/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace embedding::loadtest {
namespace {

constexpr int kUsage = 2;
constexpr int kDefaultConcurrency = 8;
constexpr int kDefaultMaxInFlight = 256;
constexpr int kDefaultConnections = 2;
constexpr int64_t kSecond = 1'000'000'000;

constexpr char kFooter[] = R"(
Closed loop (the default): --concurrency callers, each sending when its last call was answered. Its percentiles are
service times: a server that stalls stops the callers too, so they do not show what a stall costs others.
Open loop (--rate): send times are planned beforehand and kept whatever the server does; latency counts from the planned
time. Calls over --max-in-flight wait their turn, late, and are counted; a call's deadline runs from its planned time.

--fail-if takes METRIC OP VALUE: p50 p90 p99 p99.9 max mean (with unit us, ms or s), errors (a count, or a share such as
1%), rate (answered calls per second); OP is > >= < <=. Times are latency in the open loop, service time in the closed.

--verify fetches every row first, one per call, then checks each answer: rows to the bit, order and stamp of all, and of
every 50th answer to similarity or neighbours each score recomputed in double. With --mode approximate the rows found
are compared with those of the exact search, and the report says which share of them was found (the recall).

Exit codes
  0 done, even if some calls failed (see --fail-if 'errors>0'); 1 an answer was wrong, or the report could not be
  written; 2 wrong usage; 64+N no call was answered, or the server could not be asked, and gRPC status N says why (78
  unavailable, 68 deadline exceeded); 99 a --fail-if condition holds; 130 interrupted, report of what was measured

Examples
  embedding-loadtest --duration 5s
  embedding-loadtest --rate 2000 --arrivals poisson --ids zipf --fail-if 'p99>2ms' --fail-if 'errors>0'
  embedding-loadtest --rpc neighbours --k 10 --concurrency 4 --output json
  embedding-loadtest --rpc neighbours --mode approximate --effort 64 --recall
)";

// The options as they were typed; what was not typed is unset.
struct Typed {
  std::string address = "127.0.0.1:50051";
  std::string rpc = "lookup";
  std::string table;
  std::optional<int64_t> batch_size;
  std::optional<int64_t> k;
  std::optional<std::string> metric;
  std::string ids = "uniform";
  int64_t seed = 1;
  std::optional<int64_t> concurrency;
  std::optional<double> rate;
  std::optional<std::string> arrivals;
  std::optional<int64_t> max_in_flight;
  std::optional<int64_t> connections;
  std::optional<std::string> duration;
  std::optional<int64_t> requests;
  std::optional<std::string> mode;
  std::optional<int64_t> effort;
  bool recall = false;
  std::string warmup = "1s";
  std::string deadline = "5s";
  std::string output = "text";
  std::string report;
  bool verify = false;
  std::vector<std::string> fail_if;
};

void Declare(CLI::App& app, Typed& typed) {
  app.add_option("-a,--address", typed.address, "HOST:PORT or unix:PATH")
      ->envname("EMBEDDING_ADDRESS")
      ->capture_default_str();
  app.add_option("--rpc", typed.rpc, "lookup, lookup-stream (one stream a connection), similarity or neighbours")
      ->capture_default_str();
  app.add_option("--table", typed.table, "Name of the table [default: the only one]");
  app.add_option("--batch-size", typed.batch_size,
                 "Ids (lookup), pairs (similarity) or queries (neighbours) per call [default: 64; neighbours: 1]");
  app.add_option("--k", typed.k, "Neighbours per query [default: 10]");
  app.add_option("--mode", typed.mode, "neighbours: exact, or approximate by the table's index [default: exact]");
  app.add_option("--effort", typed.effort, "With --mode approximate: 1 to 65536 [default: the server's choice]");
  app.add_flag("--recall", typed.recall,
               "As --verify; with --mode approximate also the share of the closest rows found");
  app.add_option("--metric", typed.metric, "cosine, dot or euclidean [default: the table's]");
  app.add_option("--ids", typed.ids, "uniform, or zipf[:S] with P(id) ~ 1/(id+1)^S, S = 1 unless given")
      ->capture_default_str();
  app.add_option("--seed", typed.seed, "Of ids and arrivals")->capture_default_str();
  app.add_option("--concurrency", typed.concurrency, "Closed loop: callers [default: 8]");
  app.add_option("--rate", typed.rate, "Open loop: calls per second");
  app.add_option("--arrivals", typed.arrivals, "Open loop: constant or poisson gaps [default: constant]");
  app.add_option("--max-in-flight", typed.max_in_flight, "Open loop: most calls in flight [default: 256]");
  app.add_option("--connections", typed.connections,
                 "TCP connections, each with its own threads [default: 2, 1 for a single caller]");
  app.add_option("--duration", typed.duration, "Of the measured part, such as 500ms, 5s, 2m [default: 5s]");
  app.add_option("--requests", typed.requests, "Measure this many calls instead of a duration");
  app.add_option("--warmup", typed.warmup, "Sent first and not measured; 0s for none")->capture_default_str();
  app.add_option("--deadline", typed.deadline, "Of each call")->capture_default_str();
  app.add_option("--output", typed.output, "Report on stdout: text or json")->capture_default_str();
  app.add_option("--report", typed.report, "Write a JSON report to this file too (\"-\": stdout, text to stderr)");
  app.add_flag("--verify", typed.verify, "Check every answer against rows fetched beforehand");
  app.add_option("--fail-if", typed.fail_if, "Exit 99 if this holds, such as 'p99>2ms'; repeatable")
      ->allow_extra_args(false);
  app.set_version_flag("--version", "embedding-loadtest " EMBEDDING_VERSION);
  app.footer(kFooter);
}

// Turns what was typed into options; the first wrong option decides. Each method returns the complaint, empty if none.
class Builder {
 public:
  explicit Builder(const Typed& typed) : typed_(typed) {}

  std::string Build() {
    for (const auto step :
         {&Builder::Workload, &Builder::Loop, &Builder::Length, &Builder::Connections, &Builder::Reporting}) {
      if (std::string complaint = (this->*step)(); !complaint.empty()) return complaint;
    }
    Effective();
    return "";
  }

  LoadTestOptions options;

 private:
  static std::string OutOfRange(const char* flag, int64_t given, int64_t low, int64_t high) {
    return absl::StrCat(flag, " is ", given, ", allowed is ", low, " to ", high);
  }
  static std::string NotOneOf(const char* flag, const std::string& given, const char* allowed) {
    return absl::StrCat(flag, " is \"", given, "\", allowed is ", allowed);
  }

  std::string Workload() {
    WorkloadOptions& workload = options.workload;
    options.address = typed_.address;
    workload.table = typed_.table;
    if (typed_.seed < 0) return OutOfRange("--seed", typed_.seed, 0, INT64_MAX);
    workload.seed = static_cast<uint64_t>(typed_.seed);
    if (typed_.rpc == "lookup") {
      workload.rpc = Rpc::kLookup;
    } else if (typed_.rpc == "lookup-stream") {
      workload.rpc = Rpc::kLookup;
      workload.stream = true;
    } else if (typed_.rpc == "similarity") {
      workload.rpc = Rpc::kSimilarity;
    } else if (typed_.rpc == "neighbours") {
      workload.rpc = Rpc::kNeighbours;
    } else {
      return NotOneOf("--rpc", typed_.rpc, "lookup, lookup-stream, similarity, neighbours");
    }
    workload.batch_size = typed_.batch_size.value_or(workload.rpc == Rpc::kNeighbours ? 1 : 64);
    if (workload.batch_size < 1 || workload.batch_size > INT32_MAX) {
      return OutOfRange("--batch-size", workload.batch_size, 1, INT32_MAX);
    }
    if (typed_.k.has_value() && workload.rpc != Rpc::kNeighbours) {
      return absl::StrCat("--k has no effect on --rpc ", typed_.rpc);
    }
    if (typed_.k.has_value() && (*typed_.k < 1 || *typed_.k > INT32_MAX)) {
      return OutOfRange("--k", *typed_.k, 1, INT32_MAX);
    }
    workload.k = static_cast<int32_t>(typed_.k.value_or(10));
    if (std::string complaint = Mode(); !complaint.empty()) return complaint;
    if (typed_.metric.has_value()) {
      if (workload.rpc == Rpc::kLookup) return absl::StrCat("--metric has no effect on --rpc ", typed_.rpc);
      if (*typed_.metric == "cosine") {
        workload.metric = v1::METRIC_COSINE;
      } else if (*typed_.metric == "dot") {
        workload.metric = v1::METRIC_DOT;
      } else if (*typed_.metric == "euclidean") {
        workload.metric = v1::METRIC_EUCLIDEAN;
      } else {
        return NotOneOf("--metric", *typed_.metric, "cosine, dot, euclidean");
      }
    }
    return Ids();
  }

  std::string Mode() {
    WorkloadOptions& workload = options.workload;
    if (typed_.mode.has_value()) {
      if (workload.rpc != Rpc::kNeighbours) return absl::StrCat("--mode has no effect on --rpc ", typed_.rpc);
      if (*typed_.mode != "exact" && *typed_.mode != "approximate") {
        return NotOneOf("--mode", *typed_.mode, "exact, approximate");
      }
      workload.approximate = *typed_.mode == "approximate";
    }
    if (typed_.recall && !workload.approximate) return "--recall needs --mode approximate";
    if (!typed_.effort.has_value()) return "";
    if (!workload.approximate) return "--effort needs --mode approximate";
    if (*typed_.effort < 1 || *typed_.effort > 65536) return OutOfRange("--effort", *typed_.effort, 1, 65536);
    workload.effort = static_cast<int32_t>(*typed_.effort);
    return "";
  }

  std::string Ids() {
    if (typed_.ids == "uniform") return "";
    IdDistribution& ids = options.workload.ids;
    constexpr std::string_view kZipf = "zipf";
    std::string_view rest = typed_.ids;
    const bool is_zipf = rest.substr(0, kZipf.size()) == kZipf;
    rest.remove_prefix(is_zipf ? kZipf.size() : 0);
    if (!is_zipf || (!rest.empty() && rest.front() != ':'))
      return NotOneOf("--ids", typed_.ids, "uniform, zipf, zipf:S");
    ids.kind = IdDistribution::Kind::kZipf;
    if (rest.empty()) return "";
    rest.remove_prefix(1);
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), ids.zipf_s);
    if (code != std::errc() || end != rest.data() + rest.size() || !(ids.zipf_s > 0 && ids.zipf_s <= 10)) {
      return absl::StrCat("--ids is \"", typed_.ids, "\", the exponent must be a number above 0 and at most 10");
    }
    return "";
  }

  std::string Loop() {
    RunPlan& plan = options.plan;
    plan.seed = static_cast<uint64_t>(typed_.seed);
    plan.open_loop = typed_.rate.has_value();
    if (!plan.open_loop) {
      if (typed_.arrivals.has_value()) return "--arrivals has no effect without --rate";
      if (typed_.max_in_flight.has_value()) return "--max-in-flight has no effect without --rate; see --concurrency";
      const int64_t concurrency = typed_.concurrency.value_or(kDefaultConcurrency);
      if (concurrency < 1 || concurrency > 10'000) return OutOfRange("--concurrency", concurrency, 1, 10'000);
      plan.concurrency = static_cast<int>(concurrency);
      return "";
    }
    if (typed_.concurrency.has_value()) return "--concurrency has no effect with --rate; see --max-in-flight";
    plan.rate = *typed_.rate;
    if (!(plan.rate > 0 && plan.rate <= 1e7)) {
      return absl::StrFormat("--rate is %.9g, allowed is above 0 and at most 10000000", plan.rate);
    }
    const int64_t max_in_flight = typed_.max_in_flight.value_or(kDefaultMaxInFlight);
    if (max_in_flight < 1 || max_in_flight > 100'000) return OutOfRange("--max-in-flight", max_in_flight, 1, 100'000);
    plan.max_in_flight = static_cast<int>(max_in_flight);
    const std::string arrivals = typed_.arrivals.value_or("constant");
    if (arrivals != "constant" && arrivals != "poisson") return NotOneOf("--arrivals", arrivals, "constant, poisson");
    plan.arrivals = arrivals == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant;
    return "";
  }

  std::string Length() {
    RunPlan& plan = options.plan;
    if (typed_.duration.has_value() && typed_.requests.has_value()) {
      return "--duration and --requests both say when to end: give one";
    }
    if (!ParseDuration(typed_.warmup, &plan.warmup_ns)) return NotADuration("--warmup", typed_.warmup);
    int64_t deadline_ns = 0;
    if (!ParseDuration(typed_.deadline, &deadline_ns)) return NotADuration("--deadline", typed_.deadline);
    options.deadline = std::chrono::milliseconds(deadline_ns / 1'000'000);
    if (options.deadline.count() < 1)
      return absl::StrCat("--deadline is ", typed_.deadline, ", allowed is 1ms or more");
    plan.sample_interval_ns = 10'000'000;
    if (typed_.requests.has_value()) {
      plan.requests = *typed_.requests;
      const int64_t least = plan.open_loop ? 1 : plan.concurrency;
      if (plan.requests >= least) return "";
      return absl::StrCat("--requests is ", plan.requests, ", allowed is ", least, " or more",
                          plan.open_loop ? "" : ": each of the --concurrency callers sends at least one");
    }
    const std::string duration = typed_.duration.value_or("5s");
    if (!ParseDuration(duration, &plan.duration_ns)) return NotADuration("--duration", duration);
    if (plan.duration_ns < 1'000'000) return absl::StrCat("--duration is ", duration, ", allowed is 1ms or more");
    const double planned = plan.rate * static_cast<double>(plan.duration_ns) / kSecond;
    if (plan.open_loop && planned < 1) {
      return absl::StrFormat("--rate %.9g for --duration %s sends no call", plan.rate, duration);
    }
    return "";
  }

  static std::string NotADuration(const char* flag, const std::string& given) {
    return absl::StrCat(flag, " is \"", given, "\", allowed is a number with the unit us, ms, s, m or h, at most 24h");
  }

  std::string Connections() {
    const RunPlan& plan = options.plan;
    const int64_t most = plan.open_loop ? plan.max_in_flight : plan.concurrency;
    const int64_t connections = typed_.connections.value_or(std::min<int64_t>(kDefaultConnections, most));
    if (connections < 1 || connections > 1000) return OutOfRange("--connections", connections, 1, 1000);
    if (connections > most) {
      return absl::StrCat("--connections is ", connections, ", but ",
                          plan.open_loop ? "--max-in-flight" : "--concurrency", " ", most,
                          " leaves some without a call");
    }
    options.connections = static_cast<int>(connections);
    return "";
  }

  std::string Reporting() {
    if (typed_.output != "text" && typed_.output != "json") return NotOneOf("--output", typed_.output, "text, json");
    options.json = typed_.output == "json";
    options.report_path = typed_.report;
    if (options.json && options.report_path == "-") {
      return "--output json and --report - both write the same to stdout: give one";
    }
    options.verify = typed_.verify || typed_.recall;
    for (const std::string& text : typed_.fail_if) {
      Threshold threshold;
      std::string error;
      if (!ParseThreshold(text, &threshold, &error)) return absl::StrCat("--fail-if ", error);
      options.thresholds.push_back(std::move(threshold));
    }
    return "";
  }

  void Effective() {
    const auto add = [this](const char* flag, std::string value) {
      options.effective.emplace_back(flag, std::move(value));
    };
    const RunPlan& plan = options.plan;
    add("--address", options.address);
    if (!typed_.table.empty()) add("--table", typed_.table);
    add("--rpc", typed_.rpc);
    add("--batch-size", absl::StrCat(options.workload.batch_size));
    if (options.workload.rpc == Rpc::kNeighbours) add("--k", absl::StrCat(options.workload.k));
    if (typed_.mode.has_value()) add("--mode", *typed_.mode);
    if (typed_.effort.has_value()) add("--effort", absl::StrCat(*typed_.effort));
    if (typed_.metric.has_value()) add("--metric", *typed_.metric);
    add("--ids", typed_.ids);
    add("--seed", absl::StrCat(typed_.seed));
    if (plan.open_loop) {
      add("--rate", absl::StrFormat("%.9g", plan.rate));
      add("--arrivals", typed_.arrivals.value_or("constant"));
      add("--max-in-flight", absl::StrCat(plan.max_in_flight));
    } else {
      add("--concurrency", absl::StrCat(plan.concurrency));
    }
    add("--connections", absl::StrCat(options.connections));
    if (plan.requests > 0) {
      add("--requests", absl::StrCat(plan.requests));
    } else {
      add("--duration", typed_.duration.value_or("5s"));
    }
    add("--warmup", typed_.warmup);
    add("--deadline", typed_.deadline);
    if (options.verify) add("--verify", "true");
    for (const Threshold& threshold : options.thresholds) add("--fail-if", threshold.text);
  }

  const Typed& typed_;
};

}  // namespace

bool ParseDuration(const std::string& text, int64_t* nanoseconds) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, number);
  if (code != std::errc() || !std::isfinite(number) || number < 0) return false;
  const std::string_view unit(end, static_cast<size_t>(last - end));
  double scale = 0;
  if (unit == "us") scale = 1e3;
  if (unit == "ms") scale = 1e6;
  if (unit == "s") scale = 1e9;
  if (unit == "m") scale = 60e9;
  if (unit == "h") scale = 3600e9;
  if (scale == 0 || number * scale > 24 * 3600e9) return false;
  *nanoseconds = std::llround(number * scale);
  return true;
}

ParsedOptions ParseOptions(const std::vector<std::string>& arguments) {
  ParsedOptions parsed;
  Typed typed;
  CLI::App app("Sends calls to an embedding server and measures how long they take.", "embedding-loadtest");
  try {
    Declare(app, typed);
    // CLI11 takes the words last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    parsed.out = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.out = absl::StrCat(version.what(), "\n");
    return parsed;
  } catch (const std::exception& error) {
    parsed.exit_code = kUsage;
    parsed.err = absl::StrCat(error.what(), " (see --help)");
    return parsed;
  }
  Builder builder(typed);
  parsed.err = builder.Build();
  if (parsed.err.empty()) {
    parsed.options = std::move(builder.options);
  } else {
    parsed.exit_code = kUsage;
  }
  return parsed;
}

}  // namespace embedding::loadtest
