// Random traffic through a scheduler and a listener, called as the engine calls them, for tests of
// the event log. The same seed gives the same traffic.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"
#include "engine/scheduler_listener.h"

namespace quire::test {

class RecordedRun {
 public:
  RecordedRun(SchedulerListener& listener, std::uint64_t seed)
      : listener_(listener), seed_(seed), scheduler_(config()) {}

  // A pool so small that requests are preempted.
  static SchedulerConfig config() {
    SchedulerConfig config;
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 32;
    config.max_model_len = 64;
    config.block_size = 4;
    config.num_blocks = 40;
    config.max_queued = 16;
    config.eos_token_ids = {3};
    config.max_draft_paths = 3;
    config.kv_tier = true;
    config.max_pinned_blocks = 8;
    return config;
  }

  // One round of the engine's loop: maybe a new request, maybe an abort, a step.
  void round() {
    now_ += std::chrono::microseconds(100 + random(900));
    listener_.between_steps(scheduler_, now_);
    if (random(3) == 0) add();
    if (random(10) == 0) abort();
    if (random(7) == 0) pace();
    propose();
    if (++num_rounds_ % 40 == 0) reset_prefix_cache();
    if (random(6) == 0) unpin();
    report();
    step();
  }
  void end() { listener_.ended({StatusCode::kCancelled, "the test is over"}, now_); }

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  std::uint64_t random(std::uint64_t below) { return random_bits(seed_, counter_++) % below; }

  void add() {
    SamplingParams params;
    params.n = 1 + static_cast<std::int64_t>(random(5) == 0);
    params.max_tokens = 1 + static_cast<std::int64_t>(random(40));
    params.temperature = 0.5;
    if (random(6) == 0) {
      params.beam_width = 1 + static_cast<std::int64_t>(random(4));
      params.n = 1;
      params.length_penalty = 0.5 * static_cast<double>(random(3));
      params.early_stopping = static_cast<EarlyStopping>(random(3));
      if (random(2) == 0) params.logprobs = 2;
    } else {
      params.stop = {"stop"};
    }
    AddRequest request;
    request.request_id = next_id_;
    request.external_id = "request-" + std::to_string(next_id_);
    request.prompt_token_ids.resize(1 + random(70));  // some are too long
    for (TokenId& token : request.prompt_token_ids) token = static_cast<TokenId>(random(2));
    request.priority = static_cast<std::int32_t>(random(3)) - 1;
    request.cache_scope.low = next_id_ % 8 == 0 ? 1 : 0;
    request.user = "user-" + std::to_string(next_id_ % 3);
    request.deadline = std::chrono::milliseconds(next_id_ % 100);
    const bool may_pool = params.n == 1 && !params.is_beam_search();
    if (may_pool && random(8) == 0) request.pooling = static_cast<Pooling>(1 + random(3));
    if (may_pool && random(4) == 0) request.pin = next_id_;
    next_id_ += static_cast<RequestId>(params.num_ids());
    request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
    const Status status = scheduler_.add(request, now_);
    listener_.added(request, now_, status);
  }

  void abort() {
    const RequestId id = next_id_ - std::min<RequestId>(next_id_, 1 + random(12));  // a late one
    const bool found = scheduler_.abort(id, now_) != nullptr;
    listener_.aborted(id, now_, found);
  }

  // Sometimes none, sometimes so tight that prompts are cut and wait.
  void pace() {
    StepPace pace;
    pace.max_step = std::chrono::microseconds(random(2) * random(400));
    pace.max_prompt_tokens = static_cast<std::int32_t>(1 + random(40));
    pace.cost = {.step = 50'000,
                 .row = 20'000,
                 .row_keys = static_cast<std::int64_t>(random(1 << 20)),
                 .prompt_token = 10'000,
                 .prompt_keys = static_cast<std::int64_t>(random(1 << 20))};
    pace.block_fetch = std::chrono::microseconds(random(2) * random(200));
    scheduler_.set_pace(pace);
    listener_.paced(pace, now_);
  }

  // Of two tokens, so that some drafts are right; some proposals take drafts back.
  void propose() {
    for (const Request* request : scheduler_.running()) {
      if (random(3) != 0) {
        // As an engine takes back what was not computed; a snapshot has no drafts.
        if (!request->drafts().empty()) proposed_.emplace_back(request->id(), DraftTree());
        continue;
      }
      DraftTree drafts;
      const bool chain = random(2) == 0;
      for (std::uint64_t i = random(7); i > 0; --i) {
        drafts.tokens.push_back(static_cast<TokenId>(random(2)));
        if (!chain)
          drafts.parents.push_back(static_cast<std::int32_t>(random(drafts.tokens.size())) - 1);
      }
      proposed_.emplace_back(request->id(), std::move(drafts));
    }
    for (const auto& [id, drafts] : proposed_) {
      scheduler_.propose(id, drafts.view());
      listener_.proposed(id, drafts.view(), now_);
    }
    proposed_.clear();
  }

  // A request's tokens: mostly of the two that are guessed, else of all.
  TokenId token() { return static_cast<TokenId>(random(4) == 0 ? random(40) : random(2)); }

  // Of a search that runs; ids of beams follow that of their request.
  bool is_beam(RequestId id) const {
    return std::ranges::any_of(scheduler_.running(), [&](const Request* request) {
      return request->is_beam_search() && id >= request->id() &&
             id - request->id() < static_cast<RequestId>(request->max_rows());
    });
  }
  void add_candidates(SampledToken& token) {
    token.is_beam = true;
    token.first_top_logprob = static_cast<std::int32_t>(result_.top_logprobs.size());
    token.num_top_logprobs = 6;
    float logprob = 0;
    for (TokenId id = 0; id < token.num_top_logprobs; ++id) {
      logprob -= 0.125F * static_cast<float>(1 + random(8));
      result_.top_logprobs.push_back({id, logprob, id + 1});
    }
  }

  void reset_prefix_cache() {
    scheduler_.reset_prefix_cache();
    listener_.prefix_cache_reset(now_);
  }

  // The oldest, or one that is none.
  void unpin() {
    const auto pins = scheduler_.pinned().all();
    const PinId id = pins.empty() ? next_id_ : pins.front().id;
    listener_.unpinned(id, now_, scheduler_.unpin(id));
  }

  // Of fetches that end some rounds later, sometimes not with all of their blocks, and of blocks
  // that are gone from a tier which has room for few.
  void report() {
    TierReport report;
    while (!fetches_.empty() && random(2) == 0) {
      const auto [id, num_blocks] = fetches_.front();
      fetches_.pop_front();
      const bool lost = random(4) == 0;
      report.fetched.push_back(
          {id, lost ? 0 : num_blocks, std::chrono::microseconds(random(1000))});
    }
    for (const BlockStore& each : plan_.block_stores) {
      if (random(8) == 0) {
        report.removed.push_back(each.name[0]);
      } else {
        stored_.push_back(each.name[0]);
      }
    }
    for (; stored_.size() > 40; stored_.pop_front()) report.removed.push_back(stored_.front());
    if (report.empty()) return;
    scheduler_.take_in(report, now_);
    listener_.tier_reported(report, now_);
  }

  void step() {
    if (!scheduler_.schedule(now_, plan_).ok()) std::abort();
    listener_.scheduled(plan_, now_);
    for (const BlockFetch& each : plan_.block_fetches) {
      if (fetches_.empty() || fetches_.back().first != each.fetch_id) {
        fetches_.emplace_back(each.fetch_id, 0);
      }
      ++fetches_.back().second;
    }
    if (plan_.empty()) return;
    result_.clear();
    result_.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use == RowUse::kState) result_.pooled.push_back({.request_id = each.request_id});
      if (each.use != RowUse::kTokens) continue;
      const DraftTreeView drafts = plan_.drafts_of(each);
      for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node;) {
        result_.sampled.push_back({.request_id = each.request_id, .token_id = token()});
        if (is_beam(each.request_id)) add_candidates(result_.sampled.back());
        node = drafts.child(*node, result_.sampled.back().token_id);
      }
    }
    now_ += std::chrono::milliseconds(3);
    std::vector<RequestStepOutput> outputs;
    if (!scheduler_.update(result_, now_, outputs).ok()) std::abort();
    listener_.updated(result_, now_);
  }

  SchedulerListener& listener_;
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
  Scheduler scheduler_;
  Instant now_{};
  int num_rounds_ = 0;
  RequestId next_id_ = 1;
  std::deque<std::pair<FetchId, std::int32_t>> fetches_;  // on their way, and of how many blocks
  std::deque<std::uint64_t> stored_;                      // what the tier has, oldest first
  std::vector<std::pair<RequestId, DraftTree>> proposed_;
  SchedulerOutput plan_;
  ModelRunnerOutput result_;
};

}  // namespace quire::test
