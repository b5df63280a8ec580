#include "client/loadtest/report.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace embedding::loadtest {
namespace {

constexpr int64_t kFewSamples = 100;

std::string Format(const char* format, auto... values) {
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// 1234567 -> "1,234,567".
std::string Grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

// Four digits that count, in the unit that fits.
std::string Duration(double ns) {
  const auto with_unit = [](double value, const char* unit) {
    return Format(value < 10 ? "%.3f %s" : value < 100 ? "%.2f %s" : "%.1f %s", value, unit);
  };
  if (ns < 1e3) return Format("%.0f ns", ns);
  if (ns < 999.95e3) return with_unit(ns / 1e3, "us");
  if (ns < 999.95e6) return with_unit(ns / 1e6, "ms");
  return with_unit(ns / 1e9, "s");
}

std::string Rate(double per_second) {
  return per_second < 1000 ? Format("%.1f", per_second) : Grouped(std::llround(per_second));
}

// "64 rows", "1 query".
std::string Items(int64_t count, const std::string& items) {
  if (count != 1) return Grouped(count) + " " + items;
  return items == "queries" ? "1 query" : "1 " + items.substr(0, items.size() - 1);
}

// Right-aligned cell.
std::string Cell(const std::string& text, size_t width = 16) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

struct Column {
  const char* title;
  const Histogram* histogram;
};

// Right-aligned so that the units stand below each other.
std::string DurationCell(double ns) {
  const std::string text = Duration(ns);
  return Cell(text.ends_with(" s") ? text + " " : text);
}

// One row per statistic, one column per histogram; how many samples lie beyond is that of the first column.
std::string Percentiles(const std::vector<Column>& columns) {
  std::string text = std::string(10, ' ');
  for (const Column& column : columns) text += Cell(column.title);
  text += "   samples beyond\n";
  const auto line = [&](const char* name, auto value_of, const std::string& beyond) {
    text += Format("  %-8s", name);
    for (const Column& column : columns) text += DurationCell(value_of(*column.histogram));
    if (!beyond.empty()) text += Cell(beyond, 17);
    text += "\n";
  };
  line(
      "min", [](const Histogram& h) { return static_cast<double>(h.min_ns()); }, "");
  line(
      "mean", [](const Histogram& h) { return h.mean_ns(); }, "");
  for (const auto& [name, quantile] :
       {std::pair<const char*, double>{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}) {
    const int64_t beyond = columns.front().histogram->CountBeyond(quantile);
    const double q = quantile;
    line(
        name, [q](const Histogram& h) { return static_cast<double>(h.ValueAt(q)); }, Grouped(beyond));
    if (beyond < kFewSamples) text.insert(text.size() - 1, "  few: a rough figure");
  }
  line(
      "max", [](const Histogram& h) { return static_cast<double>(h.max_ns()); }, "0");
  return text;
}

std::string Headline(const ReportContext& context, const RunResult& result) {
  const RunPlan& plan = context.plan;
  std::string text = Format("%s, %s a call, table \"%s\" version %" PRIu64 " (%s x %s %s) on %s\n", context.rpc.c_str(),
                            Items(context.batch_size, context.item).c_str(), context.table_name.c_str(),
                            context.table_version, Grouped(context.rows).c_str(), Grouped(context.dim).c_str(),
                            context.dtype.c_str(), context.simd_target.c_str());
  if (plan.open_loop) {
    text += Format("Open loop: %s calls/s offered, %s arrivals, at most %s in flight on %d connection%s\n",
                   Rate(plan.rate).c_str(), plan.arrivals == Arrivals::kPoisson ? "Poisson" : "constant",
                   Grouped(plan.max_in_flight).c_str(), context.connections, context.connections == 1 ? "" : "s");
  } else {
    text += Format("Closed loop: %d caller%s on %d connection%s\n", plan.concurrency, plan.concurrency == 1 ? "" : "s",
                   context.connections, context.connections == 1 ? "" : "s");
  }
  text += Format("Measured %.3f s", static_cast<double>(result.measured_ns) / 1e9);
  if (plan.warmup_ns > 0) {
    text += Format("; the %s of warm-up before (%s calls, %s failed) is left out",
                   Duration(static_cast<double>(plan.warmup_ns)).c_str(), Grouped(result.warmup_calls).c_str(),
                   Grouped(result.warmup_errors).c_str());
  } else {
    text += "; no warm-up";
  }
  text += result.interrupted ? "; INTERRUPTED, so this is a part of the test\n\n" : "\n\n";
  return text;
}

std::string Totals(const ReportContext& context, const RunResult& result) {
  const double seconds = static_cast<double>(result.measured_ns) / 1e9;
  const double rate = result.AnsweredPerSecond();
  const int64_t calls = result.sent + result.warmup_calls;
  std::string text = "calls     ";
  if (context.plan.open_loop) text += Grouped(result.planned) + " planned, ";
  text += Format("%s sent, %s answered, %s failed\n", Grouped(result.sent).c_str(), Grouped(result.answered).c_str(),
                 Grouped(result.failed()).c_str());
  text += Format("rate      %s calls/s, %s %s/s", Rate(rate).c_str(),
                 Rate(rate * static_cast<double>(context.batch_size)).c_str(), context.item.c_str());
  if (seconds > 0 && calls > 0) {
    const double request_bytes = static_cast<double>(context.bytes_sent) / static_cast<double>(calls);
    text += Format(", %.2f MB/s received, %.2f MB/s sent", static_cast<double>(result.bytes_received) / seconds / 1e6,
                   request_bytes * static_cast<double>(result.sent) / seconds / 1e6);
  }
  text += "\n";
  if (result.mean_in_flight >= 0) {
    text += Format("in flight %.2f on average (sampled, at most %s); %.2f by rate x mean service time\n",
                   result.mean_in_flight, Grouped(result.max_in_flight_seen).c_str(),
                   rate * result.service.mean_ns() / 1e9);
  }
  if (calls > 0 && context.wall_seconds > 0) {
    text += Format("tester    %s of CPU time a call, %.2f of %d CPUs busy\n",
                   Duration(context.cpu_seconds * 1e9 / static_cast<double>(calls)).c_str(),
                   context.cpu_seconds / context.wall_seconds, context.cpus);
  }
  return text;
}

std::string VerificationLine(const ReportContext& context, const RunResult& result) {
  const int64_t wrong = result.mismatches + result.malformed;
  std::string text;
  if (context.verification.enabled) {
    if (context.rpc == "Lookup" || context.rpc == "LookupStream") {
      text = Format("verified  %s answers, every row to the bit (warm-up included): %s wrong\n",
                    Grouped(result.verified + wrong).c_str(), Grouped(wrong).c_str());
    } else {
      text = Format("verified  shape, order and stamp of every answer, every score of %s calls: %s wrong\n",
                    Grouped(context.verification.kept_verified).c_str(), Grouped(wrong).c_str());
      if (context.verification.closest_due > 0) {
        text += Format("recall    %.4f: %s of the %s closest rows were found\n",
                       static_cast<double>(context.verification.closest_found) /
                           static_cast<double>(context.verification.closest_due),
                       Grouped(context.verification.closest_found).c_str(),
                       Grouped(context.verification.closest_due).c_str());
      }
      if (context.verification.kept_not_reached > 0) {
        text += Format("          %s calls more were kept for that, but there was no time left for them\n",
                       Grouped(context.verification.kept_not_reached).c_str());
      }
    }
  }
  if (wrong > 0) {
    text += Format("\n*** WRONG ANSWERS: %s malformed, %s with other values than the reference. The first:\n    ",
                   Grouped(result.malformed).c_str(), Grouped(result.mismatches).c_str()) +
            result.first_complaint + "\n";
  }
  return text;
}

std::string Errors(const RunResult& result) {
  std::string text;
  for (const auto& [code, error] : result.errors) {
    text += Format("failed    %s with %s, the first: ", Grouped(error.count).c_str(), CodeName(code).c_str()) +
            (error.first_message.empty() ? "(no message)" : error.first_message) + "\n";
  }
  return text;
}

std::string Times(const ReportContext& context, const RunResult& result) {
  if (result.service.count() == 0) return "\nNo call was answered, so there are no times.\n";
  std::string text = "\n";
  if (context.plan.open_loop) {
    text +=
        Percentiles({{"latency", &result.latency}, {"service time", &result.service}, {"send lag", &result.send_lag}});
    text += "  latency: end minus planned send; service time: end minus actual send; send lag: actual minus planned\n";
  } else {
    text += Percentiles({{"service time", &result.service}});
    text += "  service time (closed loop): a stall stops the callers too; for latency under a load, see --rate\n";
  }
  if (result.failed() > 0) text += "  of answered calls alone\n";
  return text;
}

std::string Warnings(const ReportContext& context, const RunResult& result) {
  std::string text;
  if (context.plan.open_loop && SendLagTooHigh(result)) {
    text += Format(
        "\n*** THE TESTER FELL BEHIND: its own send lag has a p99 of %s, above 5 %% of the latency's p50 (%s).\n"
        "    Do not trust these percentiles: lower --rate, or give the tester a CPU of its own.\n",
        Duration(static_cast<double>(result.own_lag.ValueAt(0.99))).c_str(),
        Duration(static_cast<double>(result.latency.ValueAt(0.5))).c_str());
  }
  if (result.capped > 0) {
    text += Format(
        "\n*** %s calls were sent late because as many were in flight as --max-in-flight %d allows: the rate was more\n"
        "    than could be answered. Their wait is part of the latency.\n",
        Grouped(result.capped).c_str(), context.plan.max_in_flight);
  }
  return text;
}

std::string Thresholds(const ReportContext& context, const RunResult& result) {
  std::string text;
  for (const Threshold& threshold : context.thresholds) {
    const double value = ValueOf(threshold, result);
    std::string shown = Format("%.6g", value);
    if (threshold.metric == Threshold::Metric::kErrorShare) {
      shown = Format("%.4g%%", value * 100);
    } else if (threshold.metric == Threshold::Metric::kPercentile || threshold.metric == Threshold::Metric::kMax ||
               threshold.metric == Threshold::Metric::kMean) {
      shown = Duration(value);
    }
    text += Format("%s  fail if %s: it is %s\n", Holds(threshold, result) ? "FAILED" : "passed", threshold.text.c_str(),
                   shown.c_str());
  }
  return text.empty() ? text : "\n" + text;
}

}  // namespace

bool SendLagTooHigh(const RunResult& result) {
  constexpr int64_t kFloorNs = 100'000;
  const int64_t lag = result.own_lag.ValueAt(0.99);
  return lag > kFloorNs && static_cast<double>(lag) > 0.05 * static_cast<double>(result.latency.ValueAt(0.5));
}

int ExitCodeOf(const std::vector<Threshold>& thresholds, const RunResult& result) {
  if (result.mismatches + result.malformed > 0) return 1;
  if (result.interrupted) return 130;
  if (result.answered == 0 && !result.errors.empty()) {
    const auto most = std::max_element(result.errors.begin(), result.errors.end(),
                                       [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
    return 64 + most->first;
  }
  const bool missed = std::any_of(thresholds.begin(), thresholds.end(),
                                  [&result](const Threshold& threshold) { return Holds(threshold, result); });
  return missed ? 99 : 0;
}

std::string CodeName(int code) {
  // https://grpc.github.io/grpc/core/md_doc_statuscodes.html
  static constexpr std::array<const char*, 17> kNames{
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  if (code < 0 || code >= static_cast<int>(kNames.size())) return "code " + std::to_string(code);
  return kNames[static_cast<size_t>(code)];
}

std::string TextReport(const ReportContext& context, const RunResult& result) {
  return Headline(context, result) + Totals(context, result) + Errors(result) + VerificationLine(context, result) +
         Times(context, result) + Warnings(context, result) + Thresholds(context, result);
}

}  // namespace embedding::loadtest
