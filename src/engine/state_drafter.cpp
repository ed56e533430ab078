#include "engine/state_drafter.h"

#include <algorithm>
#include <utility>

#include "draft/token_tree.h"
#include "engine/draft_model.h"
#include "engine/step_states.h"

namespace quire {

StateDrafter::StateDrafter(std::unique_ptr<DraftRunner> runner, std::span<const std::int32_t> tree)
    : runner_(std::move(runner)),
      tree_(tree.begin(), tree.end()),
      state_size_(static_cast<std::size_t>(runner_->spec().state_size())) {}

// Twice the states of a step: those that are fed, and the runner's copy.
std::uint64_t StateDrafter::bytes(std::int64_t state_size, std::int64_t max_num_seqs,
                                  std::int64_t max_model_len, std::int64_t max_num_batched_tokens) {
  const auto state = static_cast<std::uint64_t>(state_size) * sizeof(float);
  const auto sequences = static_cast<std::uint64_t>(max_num_seqs);
  return sequences * (kMaxPending * state +
                      static_cast<std::uint64_t>(max_model_len + 1) * sizeof(TokenId)) +
         (2 * static_cast<std::uint64_t>(max_num_batched_tokens) + kMaxPending + sequences) * state;
}

bool StateDrafter::begin(const DraftedRequest& request) {
  Followed& followed = followed_[request.id];
  followed.request = request;
  followed.request.sampling_params =
      drafting_params(*request.sampling_params, most_choices(tree_), runner_->reduced());
  followed.sequence = &runner_->begin(request.id);
  followed.tokens.reserve(request.max_tokens);
  followed.pending.reserve(kMaxPending * state_size_);
  return true;
}

void StateDrafter::end(RequestId request_id, std::span<const TokenId> /*output*/) {
  runner_->end(request_id);
  followed_.erase(request_id);
}

void StateDrafter::read(RequestId request_id, std::span<const TokenId> tokens) {
  const auto found = followed_.find(request_id);
  if (found == followed_.end()) return;
  std::vector<TokenId>& known = found->second.tokens;
  if (tokens.size() <= known.size()) return;
  const auto unknown = tokens.subspan(known.size());
  known.insert(known.end(), unknown.begin(), unknown.end());
}

void StateDrafter::computed(const SchedulerOutput& step, const ModelRunnerOutput& result) {
  if (runner_->failed()) return;
  runner_->begin_round();
  for_each_states(step, result, state_size_,
                  [this](const ScheduledRequest& each, std::span<const float> states,
                         std::span<const SampledToken> sampled) {
                    const auto found = followed_.find(each.request_id);
                    if (found == followed_.end()) return;
                    std::vector<TokenId>& tokens = found->second.tokens;
                    if (std::ssize(tokens) == each.end_without_drafts()) {
                      for (const SampledToken& token : sampled) tokens.push_back(token.token_id);
                    }
                    take(found->second, static_cast<std::size_t>(each.num_computed_tokens), states);
                  });
  flush();
}

// States of positions from `position` on. After a preemption some come again, the same as before.
void StateDrafter::take(Followed& followed, std::size_t position, std::span<const float> states) {
  if (static_cast<std::size_t>(followed.sequence->num_computed) != followed.num_read) {
    start_at(followed, followed.first + followed.num_read);  // another needed its place
  }
  if (position > followed.end() || followed.end() == 0) start_at(followed, position);
  const std::size_t known = (followed.end() - position) * state_size_;
  if (known >= states.size()) return;
  const auto fresh = states.subspan(known);
  const std::size_t count = fresh.size() / state_size_;
  if (followed.num_pending + count > kMaxPending) return feed(followed, fresh);
  followed.pending.insert(followed.pending.end(), fresh.begin(), fresh.end());
  followed.num_pending += count;
}

void StateDrafter::start_at(Followed& followed, std::size_t position) {
  if (position != followed.first + followed.num_read) {
    followed.pending.clear();
    followed.num_pending = 0;
  }
  followed.first = position;
  followed.num_read = 0;
  runner_->truncate(*followed.sequence, 0);
}

void StateDrafter::feed(Followed& followed, std::span<const float> fresh) {
  fed_.reserve(followed.pending.size() + fresh.size());
  fed_.assign(followed.pending.begin(), followed.pending.end());
  fed_.insert(fed_.end(), fresh.begin(), fresh.end());
  followed.pending.clear();
  followed.num_pending = 0;
  std::span<const float> left = fed_;
  while (left.size() > state_size_) {
    if (runner_->rows_left() == 0) flush();
    const std::size_t count =
        std::min(left.size() / state_size_ - 1, static_cast<std::size_t>(runner_->rows_left()));
    const auto part = left.first(count * state_size_);
    left = left.subspan(part.size());
    // Where there is no room the sequence begins behind it.
    if (runner_->failed() || !add(followed, count, RowUse::kNothing, part)) {
      start_at(followed, followed.end() + count);
    }
  }
  followed.pending.assign(left.begin(), left.end());
  followed.num_pending = 1;
}

// The next `count` states, with the tokens after them.
bool StateDrafter::add(Followed& followed, std::size_t count, RowUse use,
                       std::span<const float> states) {
  const std::size_t shift = followed.first + 1;
  DraftedRequest request = followed.request;
  request.num_prompt_tokens =
      std::max(request.num_prompt_tokens - static_cast<std::int32_t>(shift), 0);
  const std::size_t num_tokens = followed.num_read + count;
  if (shift + num_tokens > followed.tokens.size() ||
      static_cast<std::int64_t>(num_tokens) > runner_->max_model_len() ||
      !runner_->add(*followed.sequence, request,
                    std::span<const TokenId>(followed.tokens).subspan(shift, num_tokens),
                    static_cast<std::int32_t>(count), use, states)) {
    return false;
  }
  followed.num_read += count;
  return true;
}

void StateDrafter::flush() {
  if (!runner_->empty()) runner_->compute();
  runner_->begin_round();
}

bool StateDrafter::lay_out(const DraftWish& wish) {
  const auto found = followed_.find(wish.request_id);
  if (found == followed_.end() || wish.most <= 0) return false;
  Followed& followed = found->second;
  const std::size_t count = followed.num_pending;
  const auto num_computed = static_cast<std::size_t>(followed.sequence->num_computed);
  // Of each token but the last there must be a state.
  if (count == 0 || num_computed != followed.num_read || followed.end() + 1 != wish.tokens.size() ||
      followed.tokens.size() != wish.tokens.size() ||
      static_cast<std::int64_t>(count) > runner_->rows_left()) {
    return false;
  }
  if (!add(followed, count, RowUse::kTokens, followed.pending)) return false;
  followed.pending.clear();
  followed.num_pending = 0;
  guessing_.push_back({&wish, followed.request.sampling_params.get(), followed.sequence});
  return true;
}

DraftWork StateDrafter::draft(std::span<const DraftWish> wishes) {
  if (wishes.empty() || runner_->failed()) return DraftWork::kNone;
  guessing_.clear();
  runner_->begin_round();
  for (const DraftWish& wish : wishes) lay_out(wish);
  if (guessing_.empty()) return DraftWork::kNone;
  runner_->guess(guessing_);
  // What was read of guesses is read again, with the model's own states, where they are right.
  for (const DraftWish& wish : wishes) {
    const auto found = followed_.find(wish.request_id);
    if (found == followed_.end()) continue;
    runner_->truncate(*found->second.sequence, static_cast<std::int32_t>(found->second.num_read));
  }
  return DraftWork::kSteps;
}

}  // namespace quire
