#include "client/loadtest/lane.h"

#include <algorithm>
#include <utility>

namespace embedding::loadtest {
namespace {

constexpr int kUnavailable = 14;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPauseAfterUnavailableNs = 10'000'000;
// How long an interrupted sender may sleep on.
constexpr int64_t kLongestNapNs = 50'000'000;
// Enough for an hour; what comes later counts in the last one.
constexpr size_t kMaxSeconds = 3600;

}  // namespace

Lane::Lane(RunState& state, Transport& transport, int index)
    : state_(state),
      transport_(transport),
      index_(index),
      slots_(SlotsOf(state.plan, state.num_lanes, index)),
      free_slots_(slots_.size()),
      num_free_(slots_.size()) {
  for (uint32_t slot = 0; slot < free_slots_.size(); ++slot) free_slots_[slot].slot = slot;
  received_.seconds.reserve(kMaxSeconds);
}

Lane::FreeSlot Lane::TakeFreeSlot() {
  std::unique_lock<std::mutex> lock(mutex_);
  slot_is_free_.wait(lock, [this] { return num_free_ > 0; });
  const FreeSlot taken = free_slots_[first_free_];
  first_free_ = (first_free_ + 1) % free_slots_.size();
  --num_free_;
  return taken;
}

void Lane::GiveBack(FreeSlot slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_slots_[(first_free_ + num_free_) % free_slots_.size()] = slot;
  if (++num_free_ == 1) slot_is_free_.notify_one();
}

void Lane::SendOpenLoop() {
  const RunPlan& plan = state_.plan;
  // Every lane walks the whole schedule and sends its share, so that the schedule does not depend on their number.
  Schedule schedule(plan.rate, plan.arrivals, plan.seed);
  int64_t measured = 0;
  bool held_back = false;  // by the cap, and not yet back on schedule
  for (uint64_t call = 0;; ++call) {
    const int64_t planned_ns = state_.start_ns + schedule.NextNs();
    const bool is_measured = planned_ns >= state_.measure_from_ns;
    if (planned_ns >= state_.measure_until_ns || (plan.requests > 0 && measured == plan.requests)) break;
    if (is_measured) ++measured;
    if (call % static_cast<uint64_t>(state_.num_lanes) != static_cast<uint64_t>(index_)) continue;

    const auto [slot, free_since_ns] = TakeFreeSlot();
    // Whatever can be done before the time has come is done before it.
    transport_.Prepare(slot, call, planned_ns);
    int64_t now = state_.clock.NowNs();
    if (now <= planned_ns) {
      held_back = false;
      while (now < planned_ns && !state_.stop.load(std::memory_order_relaxed)) {
        state_.clock.SleepUntil(std::min(planned_ns, now + kLongestNapNs));
        now = state_.clock.NowNs();
      }
    } else if (free_since_ns > planned_ns) {
      // The oldest free slot was still taken when the call was due.
      held_back = true;
      if (is_measured) ++capped_;
    }
    if (state_.stop.load(std::memory_order_relaxed)) break;
    slots_[slot] = {.call = call, .planned_ns = planned_ns, .sent_ns = now, .measured = is_measured};
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    transport_.Start(slot);
    if (is_measured) {
      ++planned_;
      ++sent_;
      send_lag_.Record(now - planned_ns);
      if (!held_back) own_lag_.Record(now - planned_ns);
    } else {
      ++warmup_calls_;
    }
  }
  transport_.FinishSending();
}

void Lane::ReceiveOpenLoop() {
  CallDone done;
  while (transport_.Next(Transport::kForever, &done) == Transport::NextResult::kDone) {
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
    Count(done);
    GiveBack({.slot = done.slot, .since_ns = done.done_ns});
  }
}

bool Lane::MaySendMore(int64_t now_ns) {
  if (state_.stop.load(std::memory_order_relaxed) || now_ns >= state_.measure_until_ns) return false;
  if (state_.plan.requests == 0 || now_ns < state_.measure_from_ns) return true;
  return state_.measured_sends.fetch_add(1, std::memory_order_relaxed) < state_.plan.requests;
}

void Lane::SendOne(uint32_t slot, uint64_t call) {
  transport_.Prepare(slot, call, state_.clock.NowNs());
  const int64_t now = state_.clock.NowNs();
  const bool is_measured = now >= state_.measure_from_ns;
  slots_[slot] = {.call = call, .planned_ns = now, .sent_ns = now, .measured = is_measured};
  ++(is_measured ? sent_ : warmup_calls_);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  transport_.Start(slot);
}

void Lane::RunClosedLoop() {
  uint64_t call = static_cast<uint64_t>(index_);
  bool sending = true;
  std::deque<std::pair<int64_t, uint32_t>> paused;  // when to send again, slot; in time order
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) paused.emplace_back(state_.start_ns, slot);
  CallDone done;
  while (true) {
    if (sending) {
      const int64_t now = state_.clock.NowNs();
      while (sending && !paused.empty() && paused.front().first <= now) {
        sending = MaySendMore(now);
        if (!sending) break;
        SendOne(paused.front().second, call);
        call += static_cast<uint64_t>(state_.num_lanes);
        paused.pop_front();
      }
      if (!sending) transport_.FinishSending();
    }
    const int64_t until = sending && !paused.empty() ? paused.front().first : Transport::kForever;
    const Transport::NextResult result = transport_.Next(until, &done);
    if (result == Transport::NextResult::kClosed) return;
    if (result == Transport::NextResult::kTimeout) continue;
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
    Count(done);
    const int64_t resume = done.code == kUnavailable ? done.done_ns + kPauseAfterUnavailableNs : done.done_ns;
    // Pauses all have one length, so only those that do not pause go to the front.
    if (done.code == kUnavailable) {
      paused.emplace_back(resume, done.slot);
    } else {
      paused.emplace_front(resume, done.slot);
    }
  }
}

SecondStats& Lane::SecondOf(int64_t time_ns) {
  const int64_t second = std::max<int64_t>(time_ns - state_.measure_from_ns, 0) / kSecond;
  const size_t index = std::min(static_cast<size_t>(second), kMaxSeconds - 1);
  if (received_.seconds.size() <= index) received_.seconds.resize(index + 1);
  return received_.seconds[index];
}

void Lane::CountVerdict(const CallDone& done) {
  switch (done.verdict) {
    case Verdict::kUnchecked:
      return;
    case Verdict::kVerified:
      ++received_.verified;
      return;
    case Verdict::kMalformed:
      ++received_.malformed;
      break;
    case Verdict::kMismatch:
      ++received_.mismatches;
      break;
  }
  if (received_.first_complaint.empty()) received_.first_complaint = done.message;
}

void Lane::Count(const CallDone& done) {
  const Slot& slot = slots_[done.slot];
  CountVerdict(done);
  if (!slot.measured) {
    if (done.code != 0) ++received_.warmup_errors;
    return;
  }
  last_done_ns_ = std::max(last_done_ns_, done.done_ns);
  SecondStats& second = SecondOf(done.done_ns);
  const int64_t took_ns = done.done_ns - slot.planned_ns;  // planned = sent in the closed loop
  second.max_ns = std::max(second.max_ns, took_ns);
  if (done.code != 0) {
    ++second.failed;
    CodeCount& error = received_.errors[done.code];
    if (error.count++ == 0) error.first_message = done.message;
    return;
  }
  ++second.answered;
  ++received_.answered;
  received_.bytes_received += done.bytes;
  received_.service.Record(done.done_ns - slot.sent_ns);
  if (state_.plan.open_loop) received_.latency.Record(took_ns);
}

void Lane::AddTo(RunResult& result) const {
  result.latency.Merge(received_.latency);
  result.service.Merge(received_.service);
  result.send_lag.Merge(send_lag_);
  result.own_lag.Merge(own_lag_);
  result.planned += planned_;
  result.sent += sent_;
  result.warmup_calls += warmup_calls_;
  result.capped += capped_;
  result.answered += received_.answered;
  result.warmup_errors += received_.warmup_errors;
  result.bytes_received += received_.bytes_received;
  result.verified += received_.verified;
  result.malformed += received_.malformed;
  result.mismatches += received_.mismatches;
  if (result.first_complaint.empty()) result.first_complaint = received_.first_complaint;
  for (const auto& [code, error] : received_.errors) {
    CodeCount& sum = result.errors[code];
    if (sum.count == 0) sum.first_message = error.first_message;
    sum.count += error.count;
  }
  if (result.seconds.size() < received_.seconds.size()) result.seconds.resize(received_.seconds.size());
  for (size_t i = 0; i < received_.seconds.size(); ++i) {
    result.seconds[i].answered += received_.seconds[i].answered;
    result.seconds[i].failed += received_.seconds[i].failed;
    result.seconds[i].max_ns = std::max(result.seconds[i].max_ns, received_.seconds[i].max_ns);
  }
  result.measured_ns = std::max(result.measured_ns, last_done_ns_ - state_.measure_from_ns);
}

}  // namespace embedding::loadtest
