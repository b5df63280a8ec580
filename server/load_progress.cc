#include "server/load_progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/service/log.h"

namespace embedding {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kLogInterval{10};
constexpr double kMiB = 1 << 20;

}  // namespace

std::string ProgressText(absl::string_view table, int64_t done_bytes, int64_t total_bytes,
                         std::chrono::nanoseconds elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const double done = static_cast<double>(done_bytes);
  const double total = static_cast<double>(total_bytes);
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text = absl::StrFormat("loading %s  %.0f %%  %.1f of %.1f MiB", table, total > 0 ? 100 * done / total : 0,
                                     done / kMiB, total / kMiB);
  if (rate > 0) {
    absl::StrAppendFormat(&text, "  %.1f MiB/s  %.0f s left", rate / kMiB, (total - done) / rate);
  }
  return text;
}

LoadProgressLine::LoadProgressLine(std::string table)
    : table_(std::move(table)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

LoadProgressLine::~LoadProgressLine() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void LoadProgressLine::Update(int64_t done_bytes, int64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (terminal_ ? std::chrono::nanoseconds(kRedrawInterval) : std::chrono::nanoseconds(kLogInterval))) {
    return;
  }
  last_ = now;
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", ProgressText(table_, done_bytes, total_bytes, now - start_).c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else {
    Log(LogLevel::kInfo, "loading", {{"table", table_}, {"done_bytes", done_bytes}, {"total_bytes", total_bytes}});
  }
}

}  // namespace embedding
