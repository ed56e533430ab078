// The laws that are true between any two calls of a scheduler, checked in full.
#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/checked.h"
#include "core/scheduler.h"

namespace quire {
namespace {

template <typename... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return Status::internal(fmt::format(format, std::forward<Args>(args)...));
}

// Beams are as long as their request's tokens, and have parted where these are theirs alone.
Status check_beams(const Request& request) {
  if (!request.is_beam_search()) return {};
  const Beams& beams = *request.beams();
  const bool running = request.state() == RequestState::kRunning;
  const std::size_t num_placed = beams.rows.placed().size();
  const auto has_length = [&](const BeamSearch::Beam& beam) {
    return std::ssize(beam.token_ids) == request.num_tokens();
  };
  const bool parted = request.num_scheduled_tokens() > beams.num_common_tokens;
  const std::size_t num_wanted = parted ? beams.rows.ids().size() : (running ? 1 : 0);
  if (!std::ranges::all_of(beams.search.beams(), has_length) || num_placed < num_wanted ||
      beams.rows.ids().size() != beams.search.beams().size()) {
    return broken("request {}: {} of {} beams have tables, after {} tokens", request.id(),
                  num_placed, beams.search.beams().size(), request.num_scheduled_tokens());
  }
  return {};
}

}  // namespace

Status Scheduler::check_invariants() const {
  QUIRE_RETURN_IF_ERROR(kv_.check_invariants());
  QUIRE_RETURN_IF_ERROR(check_queues());
  QUIRE_RETURN_IF_ERROR(check_steps_in_flight());
  QUIRE_RETURN_IF_ERROR(check_fetches());
  QUIRE_RETURN_IF_ERROR(check_pins());
  const bool fair = config_.policy == SchedulingPolicy::kFair;
  const std::int64_t num_sharing = fair ? std::ssize(requests_) : 0;
  if (shares_.num_present() != num_sharing) {
    return broken("{} requests are counted for their users, there are {}", shares_.num_present(),
                  num_sharing);
  }
  if (const std::int64_t running = shares_.num_running(); fair && running != std::ssize(running_)) {
    return broken("{} requests are counted as running for their users, {} run", running,
                  running_.size());
  }
  return check_conservation();
}

// Every request is in exactly one queue, both queues are in order, and blocks are held by the
// running and by rows that stay in a static batch, as many as their tokens need.
Status Scheduler::check_queues() const {
  if (running_.size() + waiting_.size() + fetching_.size() != requests_.size()) {
    return broken("{} requests run, {} wait and {} wait for fetches, but there are {}",
                  running_.size(), waiting_.size(), fetching_.size(), requests_.size());
  }
  if (num_rows_running() > config_.max_num_seqs) {
    return broken("{} rows run, {} of them retained, max_num_seqs is {}", num_rows_running(),
                  retained_.size(), config_.max_num_seqs);
  }
  std::size_t num_tables = retained_.size() + fetches_.size() + pinned_.all().size();
  const Request* previous = nullptr;
  const auto check = [&](const Request& request, bool running) {
    if (find(request.id()) != &request) return broken("request {} is unknown", request.id());
    if (previous != nullptr && !goes_before(*previous, request)) {
      return broken("request {} is queued after request {}, which goes later", request.id(),
                    previous->id());
    }
    previous = &request;
    if (request.finished() || (request.state() == RequestState::kRunning) != running) {
      return broken("request {} is in the wrong queue for its state", request.id());
    }
    const std::int32_t num_tokens = request.num_scheduled_tokens();
    if (request.num_pending_tokens() < 0 || (num_tokens == 0) == running) {
      return broken("request {}: {} of {} tokens are computed or in flight", request.id(),
                    num_tokens, request.num_tokens());
    }
    for (const RequestId id : request.placed_row_ids()) {
      const BlockTable* table = kv_.find(id);
      const std::int64_t num_blocks = table == nullptr ? 0 : table->size();
      num_tables += running ? 1 : 0;
      if (num_blocks != ceil_div(num_tokens, config_.block_size)) {
        return broken("request {} holds {} blocks for {} tokens", id, num_blocks, num_tokens);
      }
      QUIRE_RETURN_IF_ERROR(kv_.check_windows(id, request.num_computed_tokens()));
    }
    return check_beams(request);
  };
  for (const Request* request : running_) QUIRE_RETURN_IF_ERROR(check(*request, true));
  previous = nullptr;
  for (auto request = waiting_.rbegin(); request != waiting_.rend(); ++request) {
    QUIRE_RETURN_IF_ERROR(check(**request, false));
  }
  if (kv_.num_tables() != num_tables) {
    return broken("{} rows run, are retained, fetched or pinned, but {} block tables exist",
                  num_tables, kv_.num_tables());
  }
  if (!retained_.empty() && (!batch_.retains() || running_.empty())) {
    return broken("{} rows are retained without a batch", retained_.size());
  }
  for (const RetainedRow& row : retained_.snapshot()) {
    if (requests_.contains(row.request_id)) {
      return broken("request {} has not ended, and its row is retained", row.request_id);
    }
  }
  return retained_.check_invariants(kv_);
}

// What steps in flight compute of a request is what it says; the rest is of nobody who is there.
Status Scheduler::check_steps_in_flight() const {
  for (const Request* request : running_) {
    std::int64_t num_tokens = 0;
    std::int32_t num_placeholders = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const StepsInFlight::Share& share : steps_[i].shares) {
        if (share.request != request) continue;
        num_tokens += share.num_tokens - share.num_branched;
        num_placeholders += share.use == RowUse::kTokens ? 1 : 0;
      }
    }
    if (request->num_in_flight_tokens() != num_tokens ||
        request->num_placeholders() != num_placeholders) {
      return broken("request {} has {} tokens in flight and {} placeholders, {} and {} are planned",
                    request->id(), request->num_in_flight_tokens(), request->num_placeholders(),
                    num_tokens, num_placeholders);
    }
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::int64_t num_tokens = 0;
    for (const StepsInFlight::Share& share : steps_[i].shares) {
      num_tokens += share.num_tokens;
      if (share.request == nullptr) continue;
      const bool here =
          std::ranges::any_of(running_, [&](const Request* each) { return each == share.request; });
      if (!here) {
        return broken("step {} computes request {}, which is gone", steps_[i].id, share.request_id);
      }
    }
    if (num_tokens > config_.max_num_batched_tokens) {
      return broken("step {} computes {} tokens, max_num_batched_tokens is {}", steps_[i].id,
                    num_tokens, config_.max_num_batched_tokens);
    }
  }
  return {};
}

// What went in is what came out and what is there: requests, prompt tokens, output tokens, blocks.
Status Scheduler::check_conservation() const {
  const SchedulerStats now = stats();
  std::int64_t prompt_tokens_pending = 0;
  for (const auto& [id, request] : requests_) {
    prompt_tokens_pending += request->num_uncomputed_prompt_tokens();
  }
  if (now.prompt_tokens_pending != prompt_tokens_pending) {
    return broken("prompt tokens: {} added, {} computed, {} cached, {} dropped, but {} pending",
                  now.prompt_tokens_added, now.prompt_tokens_computed, now.prompt_tokens_cached,
                  now.prompt_tokens_dropped, prompt_tokens_pending);
  }
  if (now.num_added != now.num_finished + now.num_aborted + now.num_waiting + now.num_running) {
    return broken("requests: {} added, {} finished, {} aborted, {} waiting, {} running",
                  now.num_added, now.num_finished, now.num_aborted, now.num_waiting,
                  now.num_running);
  }
  const std::int64_t num_swaps = now.num_preemptions_by_swap;
  if (num_swaps > now.num_preemptions || (num_swaps > 0 && !config_.kv_tier)) {
    return broken("{} of {} preemptions are swaps", num_swaps, now.num_preemptions);
  }
  if (now.output_tokens_computed > now.output_tokens_sampled) {
    return broken("{} output tokens are computed, but {} were sampled", now.output_tokens_computed,
                  now.output_tokens_sampled);
  }
  std::int64_t drafts_in_flight = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const StepsInFlight::Share& share : steps_[i].shares) {
      drafts_in_flight += share.request == nullptr ? 0 : share.num_drafts;
    }
  }
  if (now.draft_tokens !=
      now.draft_tokens_accepted + now.draft_tokens_rejected + drafts_in_flight) {
    return broken("{} drafts were computed: {} accepted, {} rejected, {} in flight",
                  now.draft_tokens, now.draft_tokens_accepted, now.draft_tokens_rejected,
                  drafts_in_flight);
  }
  if (now.blocks_free + now.blocks_used != now.blocks_total || now.blocks_leaked != 0) {
    return broken("blocks: {} free, {} used, {} leaked of {}", now.blocks_free, now.blocks_used,
                  now.blocks_leaked, now.blocks_total);
  }
  return {};
}

}  // namespace quire
