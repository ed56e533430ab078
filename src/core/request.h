// The token state machine of one sequence, and nothing else: which tokens it knows, how many of
// them are computed, and whether it waits, runs or has ended. It knows nothing of its memory
// (KvCacheManager does) nor of other requests (Scheduler does).
//
//            start              append_output, pool, abort
//   waiting -------> running ------------------------------> finished
//                     ^   | preempt                             ^
//               start |   v             abort                   |
//                   preempted ----------------------------------+   (waiting -> finished: abort)
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_name.h"
#include "base/clock.h"
#include "base/draft_tree.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/beam_rows.h"
#include "core/beam_search.h"
#include "core/cache_scope.h"
#include "core/fair_shares.h"
#include "core/finish_reason.h"
#include "core/pinned_prefixes.h"
#include "core/request_timeline.h"
#include "core/sampling_params.h"
#include "core/step.h"

namespace quire {

enum class RequestState : std::uint8_t { kWaiting, kRunning, kPreempted, kFinished };

// Of requests that name none.
inline constexpr Duration kDefaultDeadline = std::chrono::seconds(60);

// What a caller gives to the scheduler. `sampling_params` are validated and not null; its n outputs
// become requests of their own, with the ids request_id .. request_id + n - 1. A beam search is one
// request, and its beams have the ids from request_id on.
struct AddRequest {
  RequestId request_id = 0;
  std::vector<TokenId> prompt_token_ids;
  std::shared_ptr<const SamplingParams> sampling_params;
  std::int32_t priority = 0;  // lower goes first, where the policy says so
  CacheScope cache_scope = {};
  std::string user = {};  // whose share of the machine it uses, where the policy is to be fair
  // From its arrival to when its answer should begin, where the policy goes by that; >= 0.
  Duration deadline = kDefaultDeadline;
  // Where it is pooled, the vector so made of its prompt's hidden states is wanted, and no output:
  // it ends when its prompt is computed. Of the parameters nothing counts; they must ask for one
  // output and no prompt_logprobs.
  Pooling pooling = Pooling::kNone;
  std::string external_id = {};  // what its caller calls it; for logs and pictures, nothing else
  // Not 0: when it ends by itself, the full blocks of its prompt are pinned under this id, as far
  // as they are there still, which they are if it has one output token.
  PinId pin = 0;
};

// What a request's beam search has come to.
struct BeamsSnapshot {
  std::vector<BeamSearch::Beam> beams;
  std::vector<BeamSearch::Finished> finished;
  BeamRows::Snapshot rows;
  std::int32_t num_common_tokens = 0;
  std::int64_t num_forks = 0;
};

// All of a request's state between two steps; what follows from the rest is not repeated.
struct RequestSnapshot {
  RequestId request_id = 0;
  std::string external_id;
  std::int32_t sample_index = 0;
  GroupId group_id = 0;
  std::uint64_t arrival_index = 0;
  RequestState state = RequestState::kWaiting;  // not finished
  std::shared_ptr<const SamplingParams> sampling_params;
  std::vector<TokenId> token_ids;  // prompt, then output
  std::int32_t num_prompt_tokens = 0;
  Pooling pooling = Pooling::kNone;
  std::int32_t num_computed_tokens = 0;
  std::int32_t max_computed_so_far = 0;
  std::int32_t priority = 0;
  CacheScope cache_scope = {};
  std::string user = {};
  Duration deadline = kDefaultDeadline;
  std::int32_t num_cached_tokens = 0;
  std::int32_t num_preemptions = 0;
  std::int64_t num_recomputed_tokens = 0;
  std::int64_t num_accepted_drafts = 0;
  std::int64_t num_rejected_drafts = 0;
  Duration step_time{};
  Instant arrival{};
  std::optional<Instant> first_scheduled;
  std::optional<Instant> first_token;
  RequestTimeline::Snapshot timeline;
  std::optional<BeamsSnapshot> beams;  // of a beam search
  FetchId fetch_id = 0;
  bool fetched = false;
  std::int32_t num_fetched_tokens = 0;
  PinId pin = 0;
};

// Which output a request is.
struct OutputIdentity {
  RequestId id = 0;
  std::int32_t sample_index = 0;    // i of n
  GroupId group_id = 0;             // the same of all n
  std::uint64_t arrival_index = 0;  // counts requests in order of arrival
};

class Request {
 public:
  // The output of `request` that `identity` says. It ends at the latest when the sequence has
  // max_model_len tokens; the prompt must be shorter, or not longer where it is pooled.
  // `eos_token_ids` end the output unless the parameters say ignore_eos.
  Request(const AddRequest& request, const OutputIdentity& identity,
          std::span<const TokenId> eos_token_ids, std::int32_t max_model_len, Instant now);

  // Of a request that has not ended and of which nothing is in flight.
  RequestSnapshot snapshot() const;
  // kInvalidArgument naming what no request could have; the rest is the constructor's.
  static Result<std::unique_ptr<Request>> restore(RequestSnapshot snapshot,
                                                  std::span<const TokenId> eos_token_ids,
                                                  std::int32_t max_model_len);

  // Transitions. Each must be legal from the present state (asserted).
  // Its first `num_computed_tokens` tokens are computed already. Returns how many prompt tokens of
  // them were never computed for this request before.
  std::int32_t start(std::int32_t num_computed_tokens, Instant now);
  // A step computes this many pending tokens; after the last one `drafts`, in order of their paths.
  // Returns what for. Where that is for tokens, a placeholder stands for the one that comes at
  // least, so that it may be scheduled before it is known.
  RowUse schedule(std::int32_t num_tokens, DraftTreeView drafts, Instant now);
  // So many of these are computed, the earliest first. `num_first` were computed for the first
  // time, the others again, after a preemption.
  struct Computed {
    std::int32_t num_first_prompt = 0;
    std::int32_t num_first_output = 0;
    std::int32_t num_again = 0;
  };
  Computed complete(std::int32_t num_tokens);
  // In place of the first placeholder. May finish the request.
  void append_output(TokenId token_id, Instant now);
  // The same for what a draft's row gave, after the token that the draft had guessed.
  void append_drafted(TokenId token_id, Instant now);
  void drop_drafts_in_flight();  // those that are left were wrong: they count as never scheduled
  // In place of the placeholder of a beam search: the candidates of each beam. May finish it; then
  // its tokens are those of the best output.
  void append_beams(std::span<const std::span<const TokenLogprob>> candidates, Instant now);
  void pool(Instant now);  // finishes a pooled request, all computed
  // Its computed tokens are lost, and what is in flight; the tokens that it knows are not.
  void preempt(const Preemption& preemption, Instant now);
  void abort(Instant now);
  // It gets no tokens for this cause; a preempted request stays preempted until it starts again.
  // True: that wait is new, and wait_for() may say for whom.
  bool wait(WaitCause cause, Instant now);
  void wait_for(const Blockers& blockers) { timeline_.block(blockers); }
  void explain(const PrefixMiss& miss) { timeline_.explain(miss); }
  // Guesses at the tokens after those it knows, for its next step; in place of earlier ones.
  void propose(DraftTreeView drafts) { drafts_.assign(drafts); }
  // So many more were what it got, and so many were not.
  void count_drafts(std::int32_t num_accepted, std::int32_t num_rejected) {
    num_accepted_drafts_ += num_accepted;
    num_rejected_drafts_ += num_rejected;
  }
  void charge(Duration share) { step_time_ += share; }  // of the time of a step
  // Before it starts, what it waits for: blocks that come from the lower tier; and those that have
  // come.
  void begin_fetch(FetchId fetch_id) { fetch_id_ = fetch_id; }
  void end_fetch(std::int32_t num_tokens) {
    fetch_id_ = 0;
    fetched_ = true;
    num_fetched_tokens_ = num_tokens;
  }
  FetchId fetch_id() const { return fetch_id_; }  // 0: none
  bool fetched() const { return fetched_; }       // once is enough for a start
  std::int32_t num_fetched_tokens() const { return num_fetched_tokens_; }
  DraftTreeView drafts() const { return drafts_.view(); }
  // Those that the step in flight computes which was planned last, also when it has ended.
  DraftTreeView drafts_in_flight() const { return drafts_in_flight_.view(); }

  RequestId id() const { return identity_.id; }
  const std::string& external_id() const { return external_id_; }
  PinId pin() const { return pin_; }  // AddRequest::pin
  std::uint64_t arrival_index() const { return identity_.arrival_index; }
  RequestState state() const { return state_; }
  bool finished() const { return state_ == RequestState::kFinished; }
  std::optional<FinishReason> finish_reason() const { return finish_reason_; }
  // The end-of-sequence or stop token id that ended it; also the last output token.
  std::optional<TokenId> stop_token_id() const { return stop_token_id_; }
  const std::shared_ptr<const SamplingParams>& sampling_params() const { return sampling_params_; }

  // Prompt, then output: of a beam search the best beam's.
  const std::vector<TokenId>& token_ids() const { return token_ids_; }
  std::span<const TokenId> prompt_token_ids() const;
  std::span<const TokenId> output_token_ids() const;
  std::int32_t num_tokens() const { return static_cast<std::int32_t>(token_ids_.size()); }
  std::int32_t num_prompt_tokens() const { return num_prompt_tokens_; }
  std::int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens_; }
  Pooling pooling() const { return pooling_; }
  bool is_pooled() const { return pooling_ != Pooling::kNone; }
  std::int32_t max_output_tokens() const { return max_output_tokens_; }  // >= 1; 0 when pooled
  // Keys and values that the request needs at its longest. The last output token is never computed.
  std::int32_t max_computed_tokens() const {
    return num_prompt_tokens_ + (is_pooled() ? 0 : max_output_tokens_ - 1);
  }

  // Tokens whose keys and values are in its blocks; those that steps in flight compute, of drafts
  // the first path; and both.
  std::int32_t num_computed_tokens() const { return num_computed_tokens_; }
  std::int32_t num_in_flight_tokens() const { return num_in_flight_tokens_; }
  std::int32_t num_scheduled_tokens() const { return num_computed_tokens_ + num_in_flight_tokens_; }
  // Tokens that steps in flight will give it at least.
  std::int32_t num_placeholders() const { return num_placeholders_; }
  // Tokens that a next step may compute, placeholders included, but not where the text is
  // constrained, or beams are searched: what may follow is known once a token is. None while drafts
  // are in flight, for nobody knows then how many tokens there will be.
  std::int32_t num_pending_tokens() const {
    if (num_drafts_in_flight_ > 0) return 0;
    const std::int32_t num_placeholders = constrained() || is_beam_search() ? 0 : num_placeholders_;
    return std::min(num_tokens() + num_placeholders, max_computed_tokens()) -
           num_scheduled_tokens();
  }
  bool is_beam_search() const { return beams_ != nullptr; }
  const Beams* beams() const { return beams_.get(); }  // null: no beam search
  Beams* beams() { return beams_.get(); }
  // The most sequences that the executor has of it.
  std::int32_t max_rows() const { return beams_ ? beams_->search.rules().width : 1; }
  // The sequences of which the next step computes tokens; one, but for beams that have parted. And
  // the tokens of one of them.
  std::span<const RequestId> row_ids() const {
    if (!beams_) return {&identity_.id, 1};
    return before_parting() ? beams_->rows.ids().first(1) : beams_->rows.ids();
  }
  const std::vector<TokenId>& row_token_ids(std::size_t row) const {
    return beams_ ? beams_->search.beams()[row].token_ids : token_ids_;
  }
  // Those that have a block table while it runs.
  std::span<const RequestId> placed_row_ids() const {
    return beams_ ? beams_->rows.placed() : row_ids();
  }
  // Tokens that beams have in common, and that one row computes for all; of others all.
  std::int32_t num_common_tokens() const {
    return beams_ ? beams_->num_common_tokens : num_tokens();
  }
  // Whether the next step computes tokens that all beams have in common.
  bool before_parting() const { return num_scheduled_tokens() < num_common_tokens(); }
  // Those of its pending tokens that a next step's rows can compute: up to where beams part.
  std::int32_t num_pending_in_rows() const {
    const std::int32_t num_pending = num_pending_tokens();
    if (!beams_ || !before_parting()) return num_pending;
    return std::min(num_pending, num_common_tokens() - num_scheduled_tokens());
  }
  bool constrained() const { return sampling_params_->structured_outputs != nullptr; }
  // Most tokens that were computed for it, or found computed, at any time.
  std::int32_t max_computed_so_far() const { return max_computed_so_far_; }
  // Prompt tokens that were never computed yet, not even before a preemption.
  std::int32_t num_uncomputed_prompt_tokens() const;

  std::int32_t sample_index() const { return identity_.sample_index; }
  GroupId group_id() const { return identity_.group_id; }
  std::int32_t priority() const { return priority_; }
  const CacheScope& cache_scope() const { return cache_scope_; }
  const std::string& user() const { return user_; }
  Duration deadline() const { return deadline_; }
  // Its user's, which must outlive it; null where shares are not counted.
  FairShare* share() const { return share_; }
  void set_share(FairShare* share) { share_ = share; }
  // Prompt tokens that were there already when it first started: prefix cache or fork.
  std::int32_t num_cached_tokens() const { return num_cached_tokens_; }
  std::int32_t num_preemptions() const { return num_preemptions_; }
  std::int64_t num_recomputed_tokens() const { return num_recomputed_tokens_; }
  std::int64_t num_accepted_drafts() const { return num_accepted_drafts_; }
  std::int64_t num_rejected_drafts() const { return num_rejected_drafts_; }
  Duration step_time() const { return step_time_; }  // its shares of the time of steps
  Instant arrival() const { return arrival_; }
  std::optional<Instant> first_scheduled() const { return first_scheduled_; }
  std::optional<Instant> first_token() const { return first_token_; }
  std::optional<Instant> finish_time() const { return finish_time_; }
  const RequestTimeline& timeline() const { return timeline_; }

 private:
  void finish(FinishReason reason, Instant now);
  void take_best_output(Instant now);
  Status restore_beams(BeamsSnapshot snapshot);
  void forget_in_flight();
  // Of the tokens [begin, begin + num_tokens): those that were computed before a preemption.
  std::int32_t num_computed_before(std::int32_t begin, std::int32_t num_tokens) const;

  OutputIdentity identity_;
  std::string external_id_;
  PinId pin_;
  RequestState state_ = RequestState::kWaiting;
  std::optional<FinishReason> finish_reason_;
  std::optional<TokenId> stop_token_id_;
  std::shared_ptr<const SamplingParams> sampling_params_;
  std::vector<TokenId> ending_token_ids_;  // sorted: stop ids and, unless ignored, end of sequence
  std::vector<TokenId> token_ids_;
  std::int32_t num_prompt_tokens_;
  Pooling pooling_;
  std::int32_t max_output_tokens_;
  std::int32_t num_computed_tokens_ = 0;
  std::int32_t num_in_flight_tokens_ = 0;
  std::int32_t num_drafts_in_flight_ = 0;  // of these
  DraftTree drafts_in_flight_;             // of all paths
  std::int32_t num_placeholders_ = 0;
  DraftTree drafts_;
  std::int32_t max_computed_so_far_ = 0;  // high-water mark of num_computed_tokens_
  std::int32_t priority_;
  CacheScope cache_scope_;
  std::string user_;
  Duration deadline_;
  FairShare* share_ = nullptr;
  std::int32_t num_cached_tokens_ = 0;
  std::int32_t num_found_tokens_ = 0;  // when it last started; until its first step then is planned
  std::int32_t num_preemptions_ = 0;
  std::int64_t num_recomputed_tokens_ = 0;
  std::int64_t num_accepted_drafts_ = 0;
  std::int64_t num_rejected_drafts_ = 0;
  Duration step_time_{};
  Instant arrival_;
  std::optional<Instant> first_scheduled_;
  std::optional<Instant> first_token_;
  std::optional<Instant> finish_time_;
  RequestTimeline timeline_;
  FetchId fetch_id_ = 0;
  bool fetched_ = false;
  std::int32_t num_fetched_tokens_ = 0;
  std::unique_ptr<Beams> beams_;  // null: no beam search
};

}  // namespace quire
