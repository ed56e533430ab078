#include "core/request.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace quire {
namespace {

std::unique_ptr<Beams> beams_of(RequestId id, const SamplingParams& params,
                                std::span<const TokenId> prompt, std::int32_t max_tokens) {
  if (!params.is_beam_search()) return nullptr;
  const BeamSearchRules rules = {
      .width = static_cast<std::int32_t>(params.beam_width),
      .length_penalty = params.length_penalty,
      .early_stopping = params.early_stopping,
      .max_tokens = max_tokens,
      .num_top_logprobs = static_cast<std::int32_t>(
          std::min<std::int64_t>(params.logprobs.value_or(-1), std::numeric_limits<int>::max()))};
  return std::make_unique<Beams>(Beams{.search = BeamSearch(rules, prompt),
                                       .rows = BeamRows(id, rules.width),
                                       .num_common_tokens = static_cast<int>(prompt.size())});
}

}  // namespace

Request::Request(const AddRequest& request, const OutputIdentity& identity,
                 std::span<const TokenId> eos_token_ids, std::int32_t max_model_len, Instant now)
    : identity_(identity),
      external_id_(request.external_id),
      pin_(request.pin),
      sampling_params_(request.sampling_params),
      num_prompt_tokens_(static_cast<std::int32_t>(request.prompt_token_ids.size())),
      pooling_(request.pooling),
      max_output_tokens_(
          is_pooled() ? 0
                      : static_cast<std::int32_t>(std::min<std::int64_t>(
                            sampling_params_->max_tokens, max_model_len - num_prompt_tokens_))),
      priority_(request.priority),
      cache_scope_(request.cache_scope),
      user_(request.user),
      deadline_(request.deadline),
      arrival_(now) {
  assert(num_prompt_tokens_ > 0 && (is_pooled() || max_output_tokens_ > 0));
  token_ids_.reserve(static_cast<std::size_t>(num_prompt_tokens_ + max_output_tokens_));
  token_ids_.assign(request.prompt_token_ids.begin(), request.prompt_token_ids.end());
  ending_token_ids_ = sampling_params_->stop_token_ids;
  if (!sampling_params_->ignore_eos) {
    ending_token_ids_.insert(ending_token_ids_.end(), eos_token_ids.begin(), eos_token_ids.end());
  }
  std::sort(ending_token_ids_.begin(), ending_token_ids_.end());
  if (!is_pooled()) beams_ = beams_of(id(), *sampling_params_, token_ids_, max_output_tokens_);
}

std::int32_t Request::start(std::int32_t num_computed_tokens, Instant now) {
  assert(state_ == RequestState::kWaiting || state_ == RequestState::kPreempted);
  assert(num_computed_tokens < num_tokens());
  const std::int32_t num_new =
      std::max(std::min(num_computed_tokens, num_prompt_tokens_) - max_computed_so_far_, 0);
  if (!first_scheduled_) {
    first_scheduled_ = now;
    num_cached_tokens_ = num_new;
  }
  state_ = RequestState::kRunning;
  num_computed_tokens_ = num_computed_tokens;
  num_found_tokens_ = num_computed_tokens;
  fetched_ = false;
  num_fetched_tokens_ = 0;
  max_computed_so_far_ = std::max(max_computed_so_far_, num_computed_tokens);
  return num_new;
}

RowUse Request::schedule(std::int32_t num_tokens, DraftTreeView drafts, Instant now) {
  assert(state_ == RequestState::kRunning && num_tokens > 0 && num_tokens <= num_pending_tokens());
  const std::int32_t begin = num_scheduled_tokens();
  const std::int32_t num_again = num_computed_before(begin, num_tokens);
  const bool decodes = num_tokens == 1 && num_again == 0 && begin >= num_prompt_tokens_;
  num_in_flight_tokens_ += num_tokens;
  timeline_.compute({.kind = decodes ? SpanKind::kDecode : SpanKind::kPrefill,
                     .num_tokens = num_tokens + drafts.size(),
                     .num_recomputed_tokens = num_again,
                     .num_cached_tokens = std::exchange(num_found_tokens_, 0)},
                    now);
  if (num_pending_tokens() > 0) return RowUse::kNothing;
  if (is_pooled()) return RowUse::kState;
  ++num_placeholders_;
  drafts_in_flight_.assign(drafts);
  num_drafts_in_flight_ = num_on_first_path(drafts);
  num_in_flight_tokens_ += num_drafts_in_flight_;
  drafts_.clear();
  return RowUse::kTokens;
}

std::int32_t Request::num_computed_before(std::int32_t begin, std::int32_t num_tokens) const {
  return std::clamp(max_computed_so_far_ - begin, 0, num_tokens);
}

Request::Computed Request::complete(std::int32_t num_tokens) {
  assert(state_ == RequestState::kRunning && num_tokens <= num_in_flight_tokens_);
  const std::int32_t begin = num_computed_tokens_;
  const std::int32_t end = begin + num_tokens;
  const std::int32_t first_begin = begin + num_computed_before(begin, num_tokens);
  const std::int32_t prompt_end = std::clamp(num_prompt_tokens_, first_begin, end);
  num_in_flight_tokens_ -= num_tokens;
  num_computed_tokens_ = end;
  max_computed_so_far_ = std::max(max_computed_so_far_, end);
  num_recomputed_tokens_ += first_begin - begin;
  return {prompt_end - first_begin, end - prompt_end, first_begin - begin};
}

void Request::append_output(TokenId token_id, Instant now) {
  assert(state_ == RequestState::kRunning && num_placeholders_ > 0);
  --num_placeholders_;
  token_ids_.push_back(token_id);
  if (!first_token_) first_token_ = now;
  if (std::binary_search(ending_token_ids_.begin(), ending_token_ids_.end(), token_id)) {
    stop_token_id_ = token_id;
    finish(FinishReason::kStop, now);
  } else if (num_output_tokens() == max_output_tokens_) {
    finish(FinishReason::kLength, now);
  }
}

void Request::append_beams(std::span<const std::span<const TokenLogprob>> candidates, Instant now) {
  assert(state_ == RequestState::kRunning && num_placeholders_ > 0 && is_beam_search());
  --num_placeholders_;
  if (!first_token_) first_token_ = now;
  BeamSearch& search = beams_->search;
  search.advance(candidates, ending_token_ids_);
  timeline_.explain(search.report());
  if (search.over()) return take_best_output(now);
  token_ids_ = search.beams()[0].token_ids;
}

void Request::take_best_output(Instant now) {
  const BeamSearch::Finished& best = beams_->search.finished()[0];
  token_ids_ = best.beam.token_ids;
  if (best.stopped) stop_token_id_ = token_ids_.back();
  finish(best.stopped ? FinishReason::kStop : FinishReason::kLength, now);
}

void Request::append_drafted(TokenId token_id, Instant now) {
  assert(num_drafts_in_flight_ > 0);
  --num_drafts_in_flight_;
  ++num_placeholders_;
  append_output(token_id, now);
}

void Request::drop_drafts_in_flight() {
  num_in_flight_tokens_ -= std::exchange(num_drafts_in_flight_, 0);
  drafts_in_flight_.clear();
}

void Request::pool(Instant now) {
  assert(state_ == RequestState::kRunning && num_computed_tokens_ == num_tokens() && is_pooled());
  finish(FinishReason::kStop, now);
}

void Request::preempt(const Preemption& preemption, Instant now) {
  assert(state_ == RequestState::kRunning);
  state_ = RequestState::kPreempted;
  num_computed_tokens_ = 0;
  forget_in_flight();
  if (beams_) {
    beams_->rows.lose_all();
    beams_->num_common_tokens = beams_->search.num_common_tokens();
  }
  ++num_preemptions_;
  wait(WaitCause::kPreempted, now);
  timeline_.explain(preemption);
}

void Request::abort(Instant now) {
  assert(!finished());
  finish(FinishReason::kAbort, now);
}

bool Request::wait(WaitCause cause, Instant now) {
  return timeline_.wait(state_ == RequestState::kPreempted ? WaitCause::kPreempted : cause, now);
}

std::span<const TokenId> Request::prompt_token_ids() const {
  return std::span(token_ids_).first(static_cast<std::size_t>(num_prompt_tokens_));
}

std::span<const TokenId> Request::output_token_ids() const {
  return std::span(token_ids_).subspan(static_cast<std::size_t>(num_prompt_tokens_));
}

std::int32_t Request::num_uncomputed_prompt_tokens() const {
  return std::max(num_prompt_tokens_ - max_computed_so_far_, 0);
}

void Request::forget_in_flight() {
  num_in_flight_tokens_ = 0;
  num_drafts_in_flight_ = 0;
  num_placeholders_ = 0;
  drafts_.clear();
}

void Request::finish(FinishReason reason, Instant now) {
  state_ = RequestState::kFinished;
  forget_in_flight();
  finish_reason_ = reason;
  finish_time_ = now;
  timeline_.finish(now);
}

}  // namespace quire
