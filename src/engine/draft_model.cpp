#include "engine/draft_model.h"

#include <algorithm>
#include <utility>

#include "draft/token_tree.h"

namespace quire {

std::shared_ptr<const SamplingParams> drafting_params(const SamplingParams& params,
                                                      std::int64_t num_choices, bool reduced) {
  auto drafting = std::make_shared<SamplingParams>(params);
  drafting->logprobs.reset();
  drafting->prompt_logprobs.reset();
  drafting->logprobs = num_choices > 1 ? num_choices : 0;
  if (!reduced) return drafting;
  drafting->repetition_penalty = 1;
  drafting->presence_penalty = 0;
  drafting->frequency_penalty = 0;
  drafting->min_tokens = 0;
  drafting->logit_bias.clear();
  drafting->bad_words_token_ids.clear();
  drafting->allowed_token_ids.clear();
  drafting->logits_processor = nullptr;
  return drafting;
}

DraftModel::DraftModel(std::unique_ptr<DraftRunner> runner, std::span<const std::int32_t> tree)
    : runner_(std::move(runner)), tree_(tree.begin(), tree.end()) {}

bool DraftModel::begin(const DraftedRequest& request) {
  Followed& followed = followed_[request.id];
  followed.request = request;
  followed.request.sampling_params = drafting_params(*request.sampling_params, most_choices(tree_));
  followed.sequence = &runner_->begin(request.id);
  return true;
}

void DraftModel::end(RequestId request_id, std::span<const TokenId> /*output*/) {
  runner_->end(request_id);
  followed_.erase(request_id);
}

// Guesses that were right are tokens with keys and values; another may have needed the place of
// all.
void DraftModel::rewind(Followed& followed, std::span<const TokenId> tokens) {
  std::vector<TokenId>& computed = followed.computed;
  computed.resize(static_cast<std::size_t>(followed.sequence->num_computed));
  const std::size_t most = std::min(computed.size(), tokens.size() - 1);
  std::size_t right = std::min(followed.num_known, most);
  while (right < most && computed[right] == tokens[right]) ++right;
  followed.num_known = right;
  computed.resize(right);
  runner_->truncate(*followed.sequence, static_cast<std::int32_t>(right));
}

void DraftModel::lay_out(const DraftWish& wish) {
  const auto found = followed_.find(wish.request_id);
  const std::int64_t left = runner_->rows_left();
  const auto room = runner_->max_model_len() - std::ssize(wish.tokens);
  if (found == followed_.end() || wish.most <= 0 || left <= 0 || room < 0) return;
  Followed& followed = found->second;
  rewind(followed, wish.tokens);
  const auto unread = wish.tokens.subspan(followed.computed.size());
  const auto read = unread.first(std::min(unread.size(), static_cast<std::size_t>(left)));
  const auto unknown = [this](TokenId token) { return token >= runner_->spec().vocab_size; };
  if (std::ranges::any_of(read, unknown)) return;
  const bool whole = read.size() == unread.size();
  if (!runner_->add(*followed.sequence, followed.request, wish.tokens,
                    static_cast<std::int32_t>(read.size()),
                    whole ? RowUse::kTokens : RowUse::kNothing)) {
    return;
  }
  followed.computed.insert(followed.computed.end(), read.begin(), read.end());
  followed.num_known = followed.computed.size();
  read_prompts_ = read_prompts_ || read.size() > 1 + SpeculativeConfig::kMaxTokens;
  if (whole)
    guessing_.push_back({&wish, followed.request.sampling_params.get(), followed.sequence});
}

std::size_t DraftModel::num_unread(RequestId request_id, std::span<const TokenId> tokens) const {
  const auto found = followed_.find(request_id);
  if (found == followed_.end()) return tokens.size();
  const auto num_read = static_cast<std::size_t>(found->second.sequence->num_computed);
  return tokens.size() - std::min(tokens.size(), num_read);
}

DraftWork DraftModel::draft(std::span<const DraftWish> wishes) {
  if (wishes.empty() || runner_->failed()) return DraftWork::kNone;
  read_prompts_ = false;
  guessing_.clear();
  runner_->begin_round();
  for (const DraftWish& wish : wishes) lay_out(wish);
  if (runner_->empty()) return DraftWork::kNone;
  if (guessing_.empty()) {
    runner_->compute();
  } else {
    runner_->guess(guessing_);
  }
  for (const DraftWish& wish : wishes) {
    const auto found = followed_.find(wish.request_id);
    if (found == followed_.end()) continue;
    // All guesses but the last have keys and values.
    Followed& followed = found->second;
    for (const std::vector<TokenId>& choices : followed.sequence->choices) {
      if (std::ssize(followed.computed) == followed.sequence->num_computed) break;
      followed.computed.push_back(choices.front());
    }
  }
  return read_prompts_ ? DraftWork::kPrompts : DraftWork::kSteps;
}

}  // namespace quire
