// What a step gave: whether it is the result of the plan, and what becomes of it.
#include <algorithm>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {
namespace {

// The tokens at the front of `sampled` that are this request's.
std::span<const SampledToken> tokens_of(RequestId request_id,
                                        std::span<const SampledToken> sampled) {
  std::size_t count = 0;
  while (count < sampled.size() && sampled[count].request_id == request_id) ++count;
  return sampled.first(count);
}

}  // namespace

Status Scheduler::update(const ModelRunnerOutput& output, Instant now,
                         std::vector<RequestStepOutput>& outputs) {
  QUIRE_RETURN_IF_ERROR(check_result(output));
  outputs.clear();
  waits_for_fetch_ = false;
  std::span<const SampledToken> sampled = output.sampled;
  std::int32_t next_pooled = 0;
  const Instant start = std::max(steps_.land(landed_), last_end_);
  last_end_ = now;
  charge(now - start);
  for (const StepsInFlight::Share& share : landed_) {
    RequestStepOutput given;
    given.request_id = share.request_id;
    given.first_sampled = static_cast<std::int32_t>(output.sampled.size() - sampled.size());
    std::span<const SampledToken> tokens;
    if (share.use == RowUse::kTokens) {
      tokens = tokens_of(share.request_id, sampled);
      sampled = sampled.subspan(tokens.size());
    } else if (share.use == RowUse::kState) {
      given.pooled_index = next_pooled++;
    }
    if (share.request == nullptr) continue;
    given.request_id = share.request->id();  // not that of a beam
    if (share.request->is_beam_search()) {
      const auto rows = std::span(output.sampled);
      take_in_beams(share, output, rows.subspan(static_cast<std::size_t>(given.first_sampled)),
                    now);
      if (!share.request->finished()) continue;
    } else {
      take_in(share, tokens, given, now);
    }
    if (share.request->finished()) end(*share.request, given);
    if (share.use != RowUse::kNothing) outputs.push_back(std::move(given));
  }
  if (running_.empty()) drop_retained_rows(0);
  return {};
}

// Whole nanoseconds, and all of them: the remainder of the division goes to the first whose parts
// add up to one more.
void Scheduler::charge(Duration time) {
  const auto tokens_of_share = [](const StepsInFlight::Share& share) {
    return share.request == nullptr ? 0 : std::int64_t{share.num_rows} * share.num_tokens;
  };
  std::int64_t num_tokens = 0;
  for (const StepsInFlight::Share& share : landed_) num_tokens += tokens_of_share(share);
  if (num_tokens == 0 || time <= Duration::zero()) return;
  const std::int64_t each = time.count() / num_tokens;
  const std::int64_t rest = time.count() % num_tokens;
  std::int64_t before = 0;  // tokens
  for (const StepsInFlight::Share& share : landed_) {
    if (share.request == nullptr) continue;
    const std::int64_t tokens = tokens_of_share(share);
    const std::int64_t more = rest * (before + tokens) / num_tokens - rest * before / num_tokens;
    share.request->charge(Duration(each * tokens + more));
    before += tokens;
  }
  counters_.step_time_charged_ns += time.count();
}

// What a request that goes on got of its share: `tokens`, where it is for tokens.
void Scheduler::take_in(const StepsInFlight::Share& share, std::span<const SampledToken> tokens,
                        RequestStepOutput& given, Instant now) {
  Request& request = *share.request;
  count(request.complete(share.num_tokens - share.num_drafts));
  if (share.use == RowUse::kState) request.pool(now);
  for (const SampledToken& token : tokens) {
    if (request.finished()) break;
    if (given.num_sampled++ == 0) {
      request.append_output(token.token_id, now);
    } else {
      count(request.complete(1));  // the row of a draft that was right
      request.append_drafted(token.token_id, now);
    }
    ++counters_.output_tokens_sampled;
    if (request.share() != nullptr) request.share()->served += FairShares::kOutputWeight;
  }
  if (share.num_drafts > 0) {
    settle_drafts(share, tokens.first(static_cast<std::size_t>(given.num_sampled)));
  }
  kv_.commit(request.id(), request.token_ids(), request.num_computed_tokens(),
             request.cache_scope());
  kv_.release_passed(request.id(), request.num_computed_tokens());
}

// In a static batch one row of it, with a next token, is still computed.
void Scheduler::end(Request& request, RequestStepOutput& given) {
  ++counters_.num_finished;
  if (request.pin() != 0) pin(request);
  const bool has_row = !request.is_pooled() && !request.is_beam_search();
  given.finished = take(request, batch_.retains() && has_row);
}

void Scheduler::count(const Request::Computed& computed) {
  counters_.prompt_tokens_computed += computed.num_first_prompt;
  counters_.output_tokens_computed += computed.num_first_output;
  counters_.tokens_recomputed += computed.num_again;
}

void Scheduler::count_drafts(Request& request, std::int32_t num_accepted,
                             std::int32_t num_rejected) {
  request.count_drafts(num_accepted, num_rejected);
  counters_.draft_tokens_accepted += num_accepted;
  counters_.draft_tokens_rejected += num_rejected;
  for (std::int32_t i = 0; i < num_accepted; ++i) {
    ++counters_.draft_tokens_accepted_at[static_cast<std::size_t>(i)];
  }
}

Status Scheduler::check_result(const ModelRunnerOutput& output) const {
  if (steps_.empty() || output.step_id != steps_[0].id) {
    return Status::internal(fmt::format("got the result of step {}, but the oldest in flight is {}",
                                        output.step_id, steps_.empty() ? 0 : steps_[0].id));
  }
  QUIRE_RETURN_IF_ERROR(check_sampled(output));
  return check_pooled(output);
}

Status Scheduler::check_sampled(const ModelRunnerOutput& output) const {
  std::span<const SampledToken> sampled = output.sampled;
  std::int32_t num_beams = 0;  // among the next rows
  for (const StepsInFlight::Share& share : steps_[0].shares) {
    if (share.use != RowUse::kTokens) continue;
    const auto tokens = tokens_of(share.request_id, sampled);
    const std::int32_t most = 1 + share.num_drafts - share.num_branched;
    if (tokens.empty() || std::ssize(tokens) > most) {
      return Status::internal(fmt::format(
          "step {} gives {} tokens where request {} was to get 1 to {}; the next one is {}",
          output.step_id, tokens.size(), share.request_id, most,
          sampled.empty() ? "missing" : fmt::format("of request {}", sampled[0].request_id)));
    }
    QUIRE_RETURN_IF_ERROR(check_drafted(share, tokens, output.step_id));
    for (const SampledToken& token : tokens) {
      if (token.token_id >= 0) continue;
      return Status::internal(fmt::format("step {} gives request {} token {}", output.step_id,
                                          share.request_id, token.token_id));
    }
    if (share.request != nullptr && share.request->is_beam_search()) num_beams = share.num_rows;
    if (num_beams > 0) {
      --num_beams;
      QUIRE_RETURN_IF_ERROR(check_candidates(tokens[0], output));
    }
    sampled = sampled.subspan(tokens.size());
  }
  if (!sampled.empty()) {
    return Status::internal(fmt::format("step {} gives {} tokens more than were planned",
                                        output.step_id, sampled.size()));
  }
  return {};
}

Status Scheduler::check_pooled(const ModelRunnerOutput& output) const {
  auto pooled = output.pooled.begin();
  for (const StepsInFlight::Share& share : steps_[0].shares) {
    if (share.use != RowUse::kState) continue;
    if (pooled == output.pooled.end() || pooled->request_id != share.request_id ||
        pooled->size > output.hidden_states.size() ||
        pooled->first > output.hidden_states.size() - pooled->size) {
      return Status::internal(fmt::format("step {} gives no hidden state for request {}",
                                          output.step_id, share.request_id));
    }
    ++pooled;
  }
  if (pooled != output.pooled.end()) {
    return Status::internal(fmt::format("step {} gives a hidden state for request {} unasked",
                                        output.step_id, pooled->request_id));
  }
  return {};
}

}  // namespace quire
