#include "sim/simulated_server.h"

#include <algorithm>

#include "base/checked.h"
#include "base/random.h"
#include "sim/traffic.h"

namespace quire {
namespace {

constexpr std::uint64_t kDraftChances = 0x445246;

}  // namespace

Instant Pipeline::pass(Instant now, std::span<const Duration> times) {
  for (std::size_t stage = 0; stage < free_.size(); ++stage) {
    now = std::max(now, free_[stage]) + times[stage];
    free_[stage] = now;
  }
  return now;
}

void count_step(const SchedulerOutput& plan, const Scheduler& scheduler, Duration time,
                StepTotals& totals) {
  const double seconds = to_seconds(time);
  const std::int64_t block_size = scheduler.config().block_size;
  std::int64_t tokens = 0;
  std::int64_t slots = 0;
  bool decodes = false;
  for (const ScheduledRequest& each : plan.scheduled) {
    const std::int64_t held = std::int64_t{each.num_computed_tokens} + each.num_scheduled_tokens;
    tokens += held;
    slots += ceil_div(held, block_size) * block_size;
    const std::int32_t num_known = each.num_scheduled_tokens - each.num_drafts;
    decodes = decodes || (each.use == RowUse::kTokens && num_known == 1);
  }
  totals.time += time;
  if (decodes) totals.longest_step = std::max(totals.longest_step, time);
  ++totals.num_steps;
  totals.running += seconds * static_cast<double>(scheduler.running().size());
  const SchedulerStats stats = scheduler.stats();
  totals.kv_used +=
      seconds * static_cast<double>(stats.blocks_used) / static_cast<double>(stats.blocks_total);
  totals.kv_waste += seconds * (1 - static_cast<double>(tokens) / static_cast<double>(slots));
}

void SimulatedServer::add(const AddRequest& request, Instant now) {
  if (!scheduler_.add(request, now).ok()) return;
  if (config_.receives_prompts) received_.insert(request.request_id);
  wakes_ = now;
}

Status SimulatedServer::advance(Instant now, StepTotals& totals, Ended& ended) {
  if (in_flight_) {
    if (end_ > now) return {};
    QUIRE_RETURN_IF_ERROR(end_step(now, ended));
  }
  if (tier_.take_report(tier_report_, now)) {
    scheduler_.take_in(tier_report_, now);
    if (pacer_) {
      fetched_.insert(fetched_.end(), tier_report_.fetched.begin(), tier_report_.fetched.end());
    }
  }
  if (config_.drafts.any()) propose();
  QUIRE_RETURN_IF_ERROR(scheduler_.schedule(now, plan_));
  QUIRE_RETURN_IF_ERROR(tier_.begin(plan_, now));
  if (plan_.empty()) {
    const auto deadline = scheduler_.next_deadline();
    wakes_ = deadline ? *deadline : kNoEvent;
    if (wakes_ <= now) return Status::internal("a scheduler with work plans nothing");
    return {};
  }
  in_flight_ = true;
  begun_ = end_ = now;
  if (plan_.scheduled.empty()) return {};  // only says who has gone
  time_step();
  end_ = pipeline_.pass(now, times_);
  for (const Duration time : times_) totals.busy += time;
  count_step(plan_, scheduler_, end_ - now, totals);
  return {};
}

void SimulatedServer::time_step() {
  const SchedulerOutput& priced = received_.empty() ? plan_ : without_received();
  times_.clear();
  for (std::size_t stage = 0; stage < pipeline_.num_stages(); ++stage) {
    times_.push_back(std::max(config_.step_time(priced, stage), Duration(1)));
  }
  const bool guessed = std::ranges::any_of(
      plan_.scheduled, [](const ScheduledRequest& each) { return each.num_drafts > 0; });
  if (guessed) times_.back() += config_.drafts.time * std::ssize(config_.drafts.acceptance);
}

// Of a prompt that has come with its keys and values only the last token is computed.
const SchedulerOutput& SimulatedServer::without_received() {
  priced_.scheduled = plan_.scheduled;
  std::erase_if(priced_.scheduled, [this](ScheduledRequest& each) {
    if (!received_.contains(each.request_id)) return false;
    if (each.use == RowUse::kNothing) return true;
    received_.erase(each.request_id);
    each.num_computed_tokens += each.num_scheduled_tokens - 1;
    each.num_scheduled_tokens = 1;
    return false;
  });
  priced_.total_num_scheduled_tokens = 0;
  for (const ScheduledRequest& each : priced_.scheduled) {
    priced_.total_num_scheduled_tokens += each.num_scheduled_tokens;
  }
  return priced_;
}

Status SimulatedServer::end_step(Instant now, Ended& ended) {
  in_flight_ = false;
  output_.clear();
  output_.step_id = plan_.step_id;
  for (const ScheduledRequest& each : plan_.scheduled) {
    if (each.use == RowUse::kTokens) sample(each);
  }
  QUIRE_RETURN_IF_ERROR(scheduler_.update(output_, now, outputs_));
  if (pacer_ && !plan_.scheduled.empty()) {
    scheduler_.set_pace(pacer_(work_of(plan_), now - begun_, fetched_));
    fetched_.clear();
  }
  for (RequestStepOutput& given : outputs_) {
    if (given.finished != nullptr) ended.push_back(std::move(given.finished));
  }
  return {};
}

// As long as what was guessed is right, its row has a token, too.
void SimulatedServer::sample(const ScheduledRequest& row) {
  const std::int64_t place = row.end_without_drafts();
  const auto num_drafts = static_cast<std::size_t>(row.num_drafts);
  for (std::size_t i = 0; i <= num_drafts; ++i) {
    const auto offset = static_cast<std::int64_t>(i);
    output_.sampled.push_back(
        {.request_id = row.request_id, .token_id = config_.output(row.request_id, place + offset)});
    if (i < num_drafts && !is_right(row.request_id, place + offset, i)) break;
  }
}

void SimulatedServer::propose() {
  for (const Request* request : scheduler_.running()) {
    if (request->num_pending_tokens() != 1) continue;
    guesses_.clear();
    const std::size_t count = num_guesses(request->id(), request->num_tokens());
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t place = request->num_tokens() + static_cast<std::int64_t>(i);
      guesses_.push_back(is_right(request->id(), place, i) ? config_.output(request->id(), place)
                                                           : kNoOutput);
    }
    scheduler_.propose(request->id(), guesses_);
  }
}

std::size_t SimulatedServer::num_guesses(RequestId request_id, std::int64_t place) const {
  const SimulatedDrafts& drafts = config_.drafts;
  const std::size_t most = drafts.acceptance.size();
  return drafts.recorded == nullptr ? most : drafts.recorded->count(request_id - 1, place, most);
}

// The guess at the token at `place`, which is the step's guess number `draft`.
bool SimulatedServer::is_right(RequestId request_id, std::int64_t place, std::size_t draft) const {
  const SimulatedDrafts& drafts = config_.drafts;
  const double chance = drafts.recorded == nullptr ? drafts.acceptance[draft]
                                                   : drafts.recorded->chance(request_id - 1, place);
  return random_uniform(mix64(request_id ^ kDraftChances), static_cast<std::uint64_t>(place)) <
         chance;
}

}  // namespace quire
