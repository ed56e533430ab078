#include "engine/draft_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/exhaustion.h"
#include "base/log.h"
#include "draft/token_tree.h"
#include "engine/step_states.h"

namespace quire {

DraftRunner::DraftRunner(std::unique_ptr<Model> model, std::unique_ptr<ModelRunner> runner,
                         const ModelRunnerConfig& config, std::vector<KvGroup> kv_groups,
                         std::int64_t vocab_size)
    : model_(std::move(model)),
      runner_(std::move(runner)),
      config_(config),
      vocab_size_(reduced() ? vocab_size : std::min(vocab_size, model_->spec().vocab_size)),
      kv_(config.block_size, static_cast<std::int32_t>(config.num_blocks),
          /*enable_prefix_caching=*/false, std::move(kv_groups)) {
  const std::int64_t blocks = (config.max_model_len + config.block_size - 1) / config.block_size;
  kv_.reserve(static_cast<std::int32_t>(config.max_num_seqs), static_cast<std::int32_t>(blocks));
  if (model_->spec().state_input.present) {
    states_.reserve(
        static_cast<std::size_t>(config.max_num_batched_tokens * model_->spec().state_size()));
  }
}

DraftRunner::Sequence& DraftRunner::begin(RequestId id) {
  Sequence& sequence = sequences_[id];
  sequence.id = id;
  return sequence;
}

void DraftRunner::end(RequestId id) {
  kv_.free(id);
  sequences_.erase(id);
}

void DraftRunner::truncate(Sequence& sequence, std::int32_t num_tokens) {
  if (sequence.num_computed <= num_tokens) return;
  sequence.num_computed = num_tokens;
  if (num_tokens == 0) {
    kv_.free(sequence.id);
  } else {
    kv_.truncate(sequence.id, num_tokens);
  }
}

void DraftRunner::begin_round() {
  ++round_;
  for (auto& [id, sequence] : sequences_) {
    sequence.choices.clear();
    sequence.probabilities.clear();
  }
  plan_.clear();
  plan_.removed_request_ids = known_;
  states_.clear();
}

std::int64_t DraftRunner::rows_left() const {
  if (std::ssize(plan_.scheduled) == config_.max_num_seqs) return 0;
  return config_.max_num_batched_tokens - plan_.total_num_scheduled_tokens;
}

// Entries that the table has more then, or -1. Those that are not of this round, the longest
// without any first, make room.
std::int32_t DraftRunner::make_room(const Sequence& sequence, std::int32_t num_tokens) {
  while (true) {
    const auto entries = kv_.allocate(sequence.id, sequence.num_computed, num_tokens, plan_);
    if (entries) return *entries;
    Sequence* oldest = nullptr;
    for (auto& [id, other] : sequences_) {
      if (other.last_round == round_ || other.num_computed == 0) continue;
      if (oldest == nullptr ||
          std::pair(other.last_round, id) < std::pair(oldest->last_round, oldest->id)) {
        oldest = &other;
      }
    }
    if (oldest == nullptr) return -1;
    truncate(*oldest, 0);
  }
}

// In place of what the runner knew of it.
bool DraftRunner::add(Sequence& sequence, const DraftedRequest& request,
                      std::span<const TokenId> tokens, std::int32_t num_tokens, RowUse use,
                      std::span<const float> states) {
  sequence.last_round = round_;
  const BlockTable* const table = kv_.find(sequence.id);
  const auto first_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  if (table != nullptr) {
    plan_.new_block_ids.insert(plan_.new_block_ids.end(), table->block_ids().begin(),
                               table->block_ids().end());
  }
  const auto first_new_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  const std::int32_t num_new_blocks = make_room(sequence, num_tokens);
  if (num_new_blocks < 0) {
    plan_.new_block_ids.resize(static_cast<std::size_t>(first_block));
    return false;
  }
  plan_.new_requests.push_back(
      {.request_id = sequence.id,
       .first_token = static_cast<std::int32_t>(plan_.new_token_ids.size()),
       .num_tokens = static_cast<std::int32_t>(tokens.size()),
       .num_prompt_tokens = request.num_prompt_tokens,
       .sample_index = request.sample_index,
       .sampling_params = request.sampling_params,
       .first_block = first_block,
       .num_blocks = first_new_block - first_block});
  plan_.new_token_ids.insert(plan_.new_token_ids.end(), tokens.begin(), tokens.end());
  states_.insert(states_.end(), states.begin(), states.end());
  schedule(sequence, num_tokens, use, first_new_block, num_new_blocks);
  return true;
}

void DraftRunner::schedule(Sequence& sequence, std::int32_t num_tokens, RowUse use,
                           std::int32_t first_new_block, std::int32_t num_new_blocks) {
  plan_.scheduled.push_back({.request_id = sequence.id,
                             .num_computed_tokens = sequence.num_computed,
                             .num_scheduled_tokens = num_tokens,
                             .use = use,
                             .first_new_block = first_new_block,
                             .num_new_blocks = num_new_blocks});
  plan_.total_num_scheduled_tokens += num_tokens;
  sequence.num_computed += num_tokens;
}

bool DraftRunner::add_next(const Guessing& guessing) {
  const auto first_new_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  const std::int32_t num_new_blocks = make_room(*guessing.sequence, 1);
  if (num_new_blocks < 0) return false;
  schedule(*guessing.sequence, 1, RowUse::kTokens, first_new_block, num_new_blocks);
  return true;
}

bool DraftRunner::compute() {
  if (!plan_.new_requests.empty()) {
    known_.clear();
    for (const NewRequestData& request : plan_.new_requests) known_.push_back(request.request_id);
  }
  const Status status = or_status([&]() -> Status {
    runner_->give_states(states_);
    QUIRE_RETURN_IF_ERROR(runner_->forward(plan_, result_));
    return runner_->sample({}, result_);
  });
  if (!status.ok()) {
    failed_ = true;
    log_warning("speculation ends, the model that drafts has failed: {}", status.to_string());
  }
  return status.ok();
}

void DraftRunner::guess(std::vector<Guessing>& guessing) {
  for (Guessing& each : guessing) {
    const GuessPlaces places = places_of(each.wish->parents, each.wish->most);
    each.num_places =
        static_cast<std::size_t>(std::ranges::max(places, {}, &GuessPlace::depth).depth) + 1;
    each.chain = {.prospect = each.wish->prospect};
  }
  guesses_ = {};
  for (std::size_t num_steps = 1; !guessing.empty(); ++num_steps) {
    if (!compute()) {
      for (const Guessing& each : guessing) each.wish->draft->clear();
      return guessing.clear();
    }
    take_guesses(guessing, num_steps);
  }
}

// A guess that the other model has no token for is dropped.
void DraftRunner::take_guess(Guessing& guessing, const SampledToken& sampled) {
  if (sampled.token_id >= vocab_size_) return;
  const float probability = std::exp(sampled.logprob);
  guesses_.add(guessing.chain, probability);
  guessing.sequence->probabilities.push_back(probability);
  std::vector<TokenId>& choices = guessing.sequence->choices.emplace_back();
  take_choices(result_, sampled, choices);
  std::erase_if(choices, [this](TokenId token) { return token >= vocab_size_; });
}

// Lays out the next step.
void DraftRunner::take_guesses(std::vector<Guessing>& guessing, std::size_t num_steps) {
  const bool reads_states = model_->spec().state_input.present;
  const auto size = static_cast<std::size_t>(model_->spec().hidden_size);
  if (reads_states) take_states(guessing.size());
  plan_.clear();
  states_.clear();
  std::size_t i = 0;
  guesses_.begin_guess();
  for (Guessing& each : guessing) take_guess(each, result_.sampled[i++]);
  const bool further = pays(guessing, num_steps);
  i = 0;
  std::erase_if(guessing, [&](const Guessing& each) {
    const std::size_t place = i++;
    if (!further || !goes_on(each, num_steps) || !add_next(each)) {
      Draft& draft = *each.wish->draft;
      fill_token_tree(each.wish->parents, each.wish->most, each.sequence->choices, draft);
      if (each.wish->parents.empty()) draft.probabilities = each.sequence->probabilities;
      return true;
    }
    if (reads_states) {
      const auto state = std::span(last_states_).subspan(place * size, size);
      states_.insert(states_.end(), state.begin(), state.end());
    }
    return false;
  });
}

// Whether one guess more for each is worth its time.
bool DraftRunner::pays(std::span<const Guessing> guessing, std::size_t num_steps) const {
  double saved = 0;
  double guess_time = 0;
  for (const Guessing& each : guessing) {
    if (!goes_on(each, num_steps)) continue;
    saved += guesses_.saved(each.chain);
    if (each.chain.prospect != nullptr) guess_time = each.chain.prospect->guess_time;
  }
  return saved > guess_time;
}

// Of the last row of each request that is sampled from.
void DraftRunner::take_states(std::size_t num_guessing) {
  const auto size = static_cast<std::size_t>(model_->spec().hidden_size);
  last_states_.clear();
  last_states_.reserve(num_guessing * size);
  std::size_t row = 0;
  for (const ScheduledRequest& each : plan_.scheduled) {
    row += static_cast<std::size_t>(each.num_scheduled_tokens);
    if (each.use != RowUse::kTokens) continue;
    const auto last = std::span(result_.states).subspan((row - 1) * size, size);
    last_states_.insert(last_states_.end(), last.begin(), last.end());
  }
}

// Nothing comes after the end.
bool DraftRunner::goes_on(const Guessing& guessing, std::size_t num_steps) const {
  const std::vector<std::vector<TokenId>>& choices = guessing.sequence->choices;
  if (choices.size() < num_steps || choices.size() == guessing.num_places) return false;
  if (guessing.sequence->num_computed == config_.max_model_len) return false;
  if (guesses_.saved(guessing.chain) <= 0) return false;
  return guessing.params->ignore_eos ||
         std::ranges::find(config_.eos_token_ids, choices.back().front()) ==
             config_.eos_token_ids.end();
}

}  // namespace quire
