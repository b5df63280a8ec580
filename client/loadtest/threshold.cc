#include "client/loadtest/threshold.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace embedding::loadtest {
namespace {

struct MetricName {
  std::string_view name;
  Threshold::Metric metric;
  double quantile;
};

constexpr std::array<MetricName, 8> kMetrics{{
    {"p50", Threshold::Metric::kPercentile, 0.5},
    {"p90", Threshold::Metric::kPercentile, 0.9},
    {"p99", Threshold::Metric::kPercentile, 0.99},
    {"p99.9", Threshold::Metric::kPercentile, 0.999},
    {"max", Threshold::Metric::kMax, 0},
    {"mean", Threshold::Metric::kMean, 0},
    {"errors", Threshold::Metric::kErrors, 0},
    {"rate", Threshold::Metric::kRate, 0},
}};

constexpr std::string_view kSpace = " \t";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// A time in nanoseconds from "2ms"; negative when it is not one.
double UnitInNs(std::string_view unit) {
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  return -1;
}

// Fills the bound from "2ms", "1%", "1900".
bool ParseBound(std::string_view value, Threshold* threshold, std::string* error) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || code != std::errc() || !std::isfinite(number) || number < 0) {
    *error = "the bound must be a number >= 0";
    return false;
  }
  const std::string_view unit = Trimmed(value.substr(static_cast<size_t>(end - value.data())));
  if (threshold->metric == Threshold::Metric::kErrors && unit == "%") {
    threshold->metric = Threshold::Metric::kErrorShare;
    threshold->bound = number / 100;
    return true;
  }
  if (threshold->metric == Threshold::Metric::kErrors || threshold->metric == Threshold::Metric::kRate) {
    if (!unit.empty()) {
      *error = threshold->metric == Threshold::Metric::kErrors ? "errors is a count, or a share with %"
                                                               : "rate is calls per second and takes no unit";
      return false;
    }
    threshold->bound = number;
    return true;
  }
  const double unit_ns = UnitInNs(unit);
  if (unit_ns < 0) {
    *error = "a time needs the unit us, ms or s";
    return false;
  }
  threshold->bound = number * unit_ns;
  return true;
}

bool Fill(std::string_view text, Threshold* threshold, std::string* error) {
  const size_t op = text.find_first_of("<>");
  if (op == std::string_view::npos) {
    *error = "there is no comparison (> >= < <=)";
    return false;
  }
  threshold->above = text[op] == '>';
  threshold->or_equal = op + 1 < text.size() && text[op + 1] == '=';
  const std::string_view name = Trimmed(text.substr(0, op));
  for (const MetricName& known : kMetrics) {
    if (known.name != name) continue;
    threshold->metric = known.metric;
    threshold->quantile = known.quantile;
    return ParseBound(Trimmed(text.substr(op + (threshold->or_equal ? 2 : 1))), threshold, error);
  }
  *error = "the metric must be one of p50 p90 p99 p99.9 max mean errors rate";
  return false;
}

}  // namespace

bool ParseThreshold(const std::string& text, Threshold* threshold, std::string* error) {
  Threshold parsed;
  parsed.text = text;
  std::string reason;
  if (!Fill(text, &parsed, &reason)) {
    *error = "\"" + text + "\" is no condition such as p99>2ms: " + reason;
    return false;
  }
  *threshold = std::move(parsed);
  return true;
}

double ValueOf(const Threshold& threshold, const RunResult& result) {
  const Histogram& times = result.latency.count() > 0 ? result.latency : result.service;
  switch (threshold.metric) {
    case Threshold::Metric::kPercentile:
      return static_cast<double>(times.ValueAt(threshold.quantile));
    case Threshold::Metric::kMax:
      return static_cast<double>(times.max_ns());
    case Threshold::Metric::kMean:
      return times.mean_ns();
    case Threshold::Metric::kErrors:
      return static_cast<double>(result.failed());
    case Threshold::Metric::kErrorShare:
      return result.sent == 0 ? 0 : static_cast<double>(result.failed()) / static_cast<double>(result.sent);
    case Threshold::Metric::kRate:
      return result.AnsweredPerSecond();
  }
  return 0;
}

bool Holds(const Threshold& threshold, const RunResult& result) {
  const double value = ValueOf(threshold, result);
  if (threshold.or_equal && value == threshold.bound) return true;
  return threshold.above ? value > threshold.bound : value < threshold.bound;
}

}  // namespace embedding::loadtest
