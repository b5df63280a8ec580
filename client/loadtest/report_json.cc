#include <cmath>
#include <cstdio>
#include <string_view>

#include "client/loadtest/report.h"

namespace embedding::loadtest {
namespace {

// Length of the well-formed UTF-8 sequence that text begins with; 0 if it does not (Unicode 15, table 3-7).
size_t SequenceLength(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&byte](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool too_high = first == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_high ? 4 : 0;
  }
  return 0;
}

// A JSON string. Bytes that are no UTF-8 become U+FFFD: messages come from the server, and JSON must be UTF-8.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const char c = text.front();
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string Json(const std::string& text) { return Quoted(text); }
std::string Json(const char* text) { return Quoted(text); }
std::string Json(bool value) { return value ? "true" : "false"; }
std::string Json(int value) { return std::to_string(value); }
std::string Json(int64_t value) { return std::to_string(value); }
std::string Json(uint64_t value) { return std::to_string(value); }
std::string Json(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

// Text of an object or a list, one field a line at the given depth.
class Object {
 public:
  explicit Object(int depth) : indent_(static_cast<size_t>(depth) * 2, ' ') {}

  template <typename T>
  Object& Add(std::string_view name, const T& value) {
    return AddRaw(name, Json(value));
  }
  Object& AddRaw(std::string_view name, const std::string& json) { return AddItem(Quoted(name) + ": " + json); }
  Object& AddItem(const std::string& json) {
    text_ += (text_.empty() ? "\n" : ",\n") + indent_ + "  " + json;
    return *this;
  }
  std::string Braces() const { return text_.empty() ? "{}" : "{" + text_ + "\n" + indent_ + "}"; }
  std::string Brackets() const { return text_.empty() ? "[]" : "[" + text_ + "\n" + indent_ + "]"; }

 private:
  const std::string indent_;
  std::string text_;
};

std::string TimesOf(const Histogram& histogram) {
  Object percentiles(2);
  for (const double percent : {50.0, 90.0, 99.0, 99.9}) {
    Object one(3);
    one.Add("p", percent);
    one.Add("value_ns", histogram.ValueAt(percent / 100));
    one.Add("samples_beyond", histogram.CountBeyond(percent / 100));
    percentiles.AddItem(one.Braces());
  }
  return Object(1)
      .Add("count", histogram.count())
      .Add("min_ns", histogram.min_ns())
      .Add("mean_ns", histogram.mean_ns())
      .Add("max_ns", histogram.max_ns())
      .AddRaw("percentiles", percentiles.Brackets())
      .Braces();
}

std::string OptionsOf(const ReportContext& context) {
  Object options(1);
  Object conditions(2);
  bool has_conditions = false;
  for (const auto& [flag, value] : context.options) {
    if (flag == "--fail-if") {
      conditions.AddItem(Quoted(value));
      has_conditions = true;
    } else {
      options.Add(flag, value);
    }
  }
  if (has_conditions) options.AddRaw("--fail-if", conditions.Brackets());
  return options.Braces();
}

void AddSubject(const ReportContext& context, Object& report) {
  report.Add("tool", "embedding-loadtest").Add("schema", 1).Add("version", context.program_version);
  report.Add("started_at", context.started_at).AddRaw("options", OptionsOf(context));
  report.AddRaw("server", Object(1)
                              .Add("version", context.server_version)
                              .Add("revision", context.server_revision)
                              .Add("simd_target", context.simd_target)
                              .Braces());
  report.AddRaw("table", Object(1)
                             .Add("name", context.table_name)
                             .Add("version", context.table_version)
                             .Add("rows", context.rows)
                             .Add("dim", context.dim)
                             .Add("dtype", context.dtype)
                             .Add("fingerprint", context.fingerprint)
                             .Braces());
  report.AddRaw("host",
                Object(1).Add("cpu", context.cpu).Add("cpus", context.cpus).Add("kernel", context.kernel).Braces());
}

void AddCounts(const ReportContext& context, const RunResult& result, Object& report) {
  const double seconds = static_cast<double>(result.measured_ns) / 1e9;
  const double rate = result.AnsweredPerSecond();
  const int64_t calls = result.sent + result.warmup_calls;
  report.Add("mode", context.plan.open_loop ? "open_loop" : "closed_loop").Add("item", context.item);
  report.Add("measured_seconds", seconds).Add("warmup_seconds", static_cast<double>(context.plan.warmup_ns) / 1e9);
  report.Add("warmup_calls", result.warmup_calls).Add("warmup_errors", result.warmup_errors);
  report.Add("interrupted", result.interrupted);
  if (context.plan.open_loop) {
    report.Add("offered_per_second", context.plan.rate).Add("planned", result.planned).Add("capped", result.capped);
  }
  report.Add("sent", result.sent).Add("answered", result.answered).Add("failed", result.failed());
  report.Add("answered_per_second", rate).Add("items_per_second", rate * static_cast<double>(context.batch_size));
  if (seconds > 0 && calls > 0) {
    report.Add("received_bytes_per_second", static_cast<double>(result.bytes_received) / seconds);
    report.Add("sent_bytes_per_second", static_cast<double>(context.bytes_sent) / static_cast<double>(calls) *
                                            static_cast<double>(result.sent) / seconds);
  }
  Object errors(1);
  for (const auto& [code, error] : result.errors) {
    errors.AddItem(Object(2)
                       .Add("code", code)
                       .Add("name", CodeName(code))
                       .Add("count", error.count)
                       .Add("first_message", error.first_message)
                       .Braces());
  }
  report.AddRaw("errors", errors.Brackets());
}

void AddChecks(const ReportContext& context, const RunResult& result, Object& report) {
  Object in_flight(1);
  if (result.mean_in_flight >= 0) {
    in_flight.Add("mean_sampled", result.mean_in_flight).Add("max_sampled", result.max_in_flight_seen);
  }
  in_flight.Add("rate_times_mean_service", result.AnsweredPerSecond() * result.service.mean_ns() / 1e9);
  report.AddRaw("in_flight", in_flight.Braces());
  const int64_t calls = result.sent + result.warmup_calls;
  Object cpu(1);
  cpu.Add("seconds", context.cpu_seconds);
  if (calls > 0) cpu.Add("ns_per_call", context.cpu_seconds * 1e9 / static_cast<double>(calls));
  if (context.wall_seconds > 0) cpu.Add("cpus_busy", context.cpu_seconds / context.wall_seconds);
  report.AddRaw("tester_cpu", cpu.Braces());
  if (context.verification.enabled || result.malformed > 0) {
    Object verification(1);
    verification.Add("verified", result.verified)
        .Add("malformed", result.malformed)
        .Add("mismatches", result.mismatches)
        .Add("kept_verified", context.verification.kept_verified)
        .Add("kept_not_reached", context.verification.kept_not_reached);
    if (context.verification.closest_due > 0) {
      verification.Add("closest_due", context.verification.closest_due)
          .Add("closest_found", context.verification.closest_found);
    }
    report.AddRaw("verification", verification.Add("first_complaint", result.first_complaint).Braces());
  }
  Object thresholds(1);
  for (const Threshold& threshold : context.thresholds) {
    thresholds.AddItem(Object(2)
                           .Add("condition", threshold.text)
                           .Add("value", ValueOf(threshold, result))
                           .Add("holds", Holds(threshold, result))
                           .Braces());
  }
  report.AddRaw("thresholds", thresholds.Brackets());
}

}  // namespace

std::string JsonReport(const ReportContext& context, const RunResult& result) {
  Object report(0);
  AddSubject(context, report);
  AddCounts(context, result, report);
  if (context.plan.open_loop) report.AddRaw("latency", TimesOf(result.latency));
  report.AddRaw("service", TimesOf(result.service));
  if (context.plan.open_loop) {
    report.AddRaw("send_lag", TimesOf(result.send_lag)).AddRaw("own_lag", TimesOf(result.own_lag));
    report.Add("send_lag_too_high", SendLagTooHigh(result));
  }
  AddChecks(context, result, report);
  Object seconds(1);
  for (size_t i = 0; i < result.seconds.size(); ++i) {
    const SecondStats& second = result.seconds[i];
    seconds.AddItem(Object(2)
                        .Add("second", static_cast<int64_t>(i))
                        .Add("answered", second.answered)
                        .Add("failed", second.failed)
                        .Add("max_ns", second.max_ns)
                        .Braces());
  }
  report.AddRaw("per_second", seconds.Brackets()).Add("exit_code", context.exit_code);
  return report.Braces() + "\n";
}

}  // namespace embedding::loadtest
