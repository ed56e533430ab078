#include "engine/medusa_drafter.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/exhaustion.h"
#include "base/log.h"
#include "draft/token_tree.h"
#include "engine/draft_model.h"
#include "engine/step_states.h"

namespace quire {
namespace {

// What so many heads reach of a tree, and so many guesses have room for.
std::vector<std::int32_t> within_reach(std::span<const std::int32_t> tree, std::int64_t num_heads) {
  const GuessPlaces places = places_of(tree, static_cast<std::int32_t>(tree.size()));
  std::vector<std::int32_t> placed(tree.size());
  std::vector<std::int32_t> reached;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (places[i].depth >= num_heads) continue;
    placed[i] = static_cast<std::int32_t>(reached.size());
    reached.push_back(tree[i] < 0 ? tree[i] : placed[static_cast<std::size_t>(tree[i])]);
  }
  return reached;
}

}  // namespace

MedusaDrafter::MedusaDrafter(std::unique_ptr<MedusaRunner> runner,
                             std::span<const std::int32_t> tree, std::int64_t max_num_seqs)
    : runner_(std::move(runner)), tree_(within_reach(tree, runner_->num_heads())) {
  const auto rows = static_cast<std::size_t>(max_num_seqs);
  guessing_.resize(rows);
  rows_.reserve(rows);
  states_.reserve(rows * static_cast<std::size_t>(runner_->hidden_size()));
}

std::uint64_t MedusaDrafter::bytes(std::int64_t hidden_size, std::int64_t max_num_seqs,
                                   std::int64_t max_model_len) {
  const auto state = static_cast<std::uint64_t>(hidden_size) * sizeof(float);
  const auto tokens = static_cast<std::uint64_t>(max_model_len + SpeculativeConfig::kMaxTokens);
  return static_cast<std::uint64_t>(max_num_seqs) *
         (2 * state + tokens * sizeof(TokenId) + sizeof(InputBatch::SampleRow));
}

bool MedusaDrafter::begin(const DraftedRequest& request) {
  Followed& followed = followed_[request.id];
  followed.request = request;
  followed.params =
      drafting_params(*request.sampling_params, most_choices(tree_), runner_->reduced());
  followed.seed =
      followed.params->seed.value_or(0) + static_cast<std::uint64_t>(request.sample_index);
  followed.tokens.reserve(request.max_tokens + SpeculativeConfig::kMaxTokens);
  followed.state.reserve(static_cast<std::size_t>(runner_->hidden_size()));
  return true;
}

void MedusaDrafter::end(RequestId request_id, std::span<const TokenId> /*output*/) {
  followed_.erase(request_id);
}

void MedusaDrafter::read(RequestId request_id, std::span<const TokenId> tokens) {
  const auto found = followed_.find(request_id);
  if (found == followed_.end()) return;
  std::vector<TokenId>& known = found->second.tokens;
  if (tokens.size() <= known.size()) return;
  known.insert(known.end(), tokens.begin() + std::ssize(known), tokens.end());
}

// Only the state counts that the last token was drawn from.
void MedusaDrafter::computed(const SchedulerOutput& step, const ModelRunnerOutput& result) {
  const auto size = static_cast<std::size_t>(runner_->hidden_size());
  for_each_states(step, result, size,
                  [&](const ScheduledRequest& each, std::span<const float> states,
                      std::span<const SampledToken> sampled) {
                    const auto found = followed_.find(each.request_id);
                    if (found == followed_.end() || sampled.empty()) return;
                    Followed& followed = found->second;
                    followed.position = static_cast<std::size_t>(each.num_computed_tokens) +
                                        states.size() / size - 1;
                    const auto last = states.last(size);
                    followed.state.assign(last.begin(), last.end());
                  });
}

bool MedusaDrafter::lay_out(const DraftWish& wish) {
  const auto found = followed_.find(wish.request_id);
  if (found == followed_.end() || wish.most <= 0 || num_guessing_ == guessing_.size()) return false;
  Followed& followed = found->second;
  if (followed.state.empty() || followed.position + 2 != wish.tokens.size()) return false;
  read(wish.request_id, wish.tokens);
  Guessing& guessing = guessing_[num_guessing_++];
  guessing.wish = &wish;
  guessing.followed = &followed;
  const GuessPlaces places = places_of(wish.parents, wish.most);
  const auto deepest = std::ranges::max(places, {}, &GuessPlace::depth).depth;
  guessing.num_heads = std::min<std::int64_t>(deepest + 1, runner_->num_heads());
  guessing.choices.resize(static_cast<std::size_t>(guessing.num_heads));
  return true;
}

// Those with most heads come first, so that each head has the first so many rows.
Status MedusaDrafter::run_heads() {
  const auto all = std::span(guessing_).first(num_guessing_);
  std::ranges::stable_sort(all, std::greater(), &Guessing::num_heads);
  states_.clear();
  for (const Guessing& each : all) {
    states_.insert(states_.end(), each.followed->state.begin(), each.followed->state.end());
  }
  for (std::int64_t head = 0; head < all.front().num_heads; ++head) {
    const auto needs_it = [&](const Guessing& each) { return each.num_heads > head; };
    QUIRE_RETURN_IF_ERROR(
        run_head(head, static_cast<std::size_t>(std::ranges::count_if(all, needs_it))));
  }
  return {};
}

// What is guessed stands behind the known tokens, as the model would draw its next token there.
Status MedusaDrafter::run_head(std::int64_t head, std::size_t num_rows) {
  rows_.clear();
  for (const Guessing& each : std::span(guessing_).first(num_rows)) {
    const Followed& followed = *each.followed;
    rows_.push_back({.request_id = followed.request.id,
                     .context = {.params = followed.params.get(),
                                 .token_ids = followed.tokens,
                                 .num_prompt_tokens = followed.request.num_prompt_tokens},
                     .seed = followed.seed});
  }
  const auto size = static_cast<std::size_t>(runner_->hidden_size());
  QUIRE_RETURN_IF_ERROR(
      runner_->run(head, std::span(states_).first(num_rows * size), rows_, result_));
  for (std::size_t i = 0; i < num_rows; ++i) {
    const SampledToken& sampled = result_.sampled[i];
    take_choices(result_, sampled, guessing_[i].choices[static_cast<std::size_t>(head)]);
    guessing_[i].followed->tokens.push_back(sampled.token_id);
  }
  return {};
}

DraftWork MedusaDrafter::draft(std::span<const DraftWish> wishes) {
  if (failed_) return DraftWork::kNone;
  num_guessing_ = 0;
  for (const DraftWish& wish : wishes) lay_out(wish);
  if (num_guessing_ == 0) return DraftWork::kNone;
  const Status status = or_status([this] { return run_heads(); });
  for (const Guessing& each : std::span(guessing_).first(num_guessing_)) {
    each.followed->tokens.resize(each.wish->tokens.size());
    if (!status.ok()) continue;
    fill_token_tree(each.wish->parents, each.wish->most, each.choices, *each.wish->draft);
  }
  if (status.ok()) return DraftWork::kSteps;
  failed_ = true;
  log_warning("speculation ends, Medusa's heads have failed: {}", status.to_string());
  return DraftWork::kNone;
}

}  // namespace quire
