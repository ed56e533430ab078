#include "engine/draft_model.h"

#include <algorithm>
#include <utility>

#include "base/exhaustion.h"
#include "base/log.h"

namespace quire {
namespace {

// What the guesses depend on, and nothing that costs time without changing them.
std::shared_ptr<const SamplingParams> drafting_params(const SamplingParams& params) {
  auto drafting = std::make_shared<SamplingParams>(params);
  drafting->logprobs.reset();
  drafting->prompt_logprobs.reset();
  return drafting;
}

}  // namespace

DraftModel::DraftModel(std::unique_ptr<Model> model, std::unique_ptr<ModelRunner> runner,
                       const ModelRunnerConfig& config, std::vector<KvGroup> kv_groups,
                       std::int64_t vocab_size)
    : model_(std::move(model)),
      runner_(std::move(runner)),
      config_(config),
      vocab_size_(std::min(vocab_size, model_->spec().vocab_size)),
      kv_(config.block_size, static_cast<std::int32_t>(config.num_blocks),
          /*enable_prefix_caching=*/false, std::move(kv_groups)) {
  const std::int64_t blocks = (config.max_model_len + config.block_size - 1) / config.block_size;
  kv_.reserve(static_cast<std::int32_t>(config.max_num_seqs), static_cast<std::int32_t>(blocks));
  active_.reserve(static_cast<std::size_t>(config.max_num_seqs));
}

bool DraftModel::begin(const DraftedRequest& request) {
  Followed& followed = followed_[request.id];
  followed.request = request;
  followed.request.sampling_params = drafting_params(*request.sampling_params);
  return true;
}

void DraftModel::end(RequestId request_id, std::span<const TokenId> /*output*/) {
  kv_.free(request_id);
  followed_.erase(request_id);
}

void DraftModel::rewind(Followed& followed, std::span<const TokenId> tokens) {
  std::vector<TokenId>& computed = followed.computed;
  const std::size_t most = std::min(computed.size(), tokens.size() - 1);
  std::size_t right = std::min(followed.num_known, most);
  while (right < most && computed[right] == tokens[right]) ++right;
  followed.num_known = right;
  if (right == computed.size()) return;
  const RequestId id = followed.request.id;
  computed.resize(right);
  if (right == 0) {
    kv_.free(id);
  } else {
    kv_.truncate(id, static_cast<std::int32_t>(right));
  }
}

// Those that get no guesses now, the longest without any first, make room.
std::int32_t DraftModel::make_room(Followed& followed, std::int32_t num_tokens) {
  const RequestId id = followed.request.id;
  const auto num_computed = static_cast<std::int32_t>(followed.computed.size());
  while (true) {
    if (const auto entries = kv_.allocate(id, num_computed, num_tokens, plan_)) return *entries;
    Followed* oldest = nullptr;
    for (auto& [other_id, other] : followed_) {
      if (other.last_round == round_ || other.computed.empty()) continue;
      if (oldest == nullptr || std::pair(other.last_round, other_id) <
                                   std::pair(oldest->last_round, oldest->request.id)) {
        oldest = &other;
      }
    }
    if (oldest == nullptr) return -1;
    kv_.free(oldest->request.id);
    oldest->computed.clear();
    oldest->num_known = 0;
  }
}

void DraftModel::lay_out(const DraftWish& wish) {
  const auto found = followed_.find(wish.request_id);
  const std::int64_t left = config_.max_num_batched_tokens - plan_.total_num_scheduled_tokens;
  const auto room = config_.max_model_len - std::ssize(wish.tokens);
  if (found == followed_.end() || wish.most <= 0 || left <= 0 || room < 0) return;
  if (std::ssize(plan_.scheduled) == config_.max_num_seqs) return;
  Followed& followed = found->second;
  followed.last_round = round_;
  rewind(followed, wish.tokens);
  const auto unread = wish.tokens.subspan(followed.computed.size());
  const auto read = unread.first(std::min(unread.size(), static_cast<std::size_t>(left)));
  const auto unknown = [this](TokenId token) { return token >= model_->spec().vocab_size; };
  if (std::ranges::any_of(read, unknown)) return;
  const bool whole = read.size() == unread.size();
  if (!tell(wish, followed, static_cast<std::int32_t>(read.size()),
            whole ? RowUse::kTokens : RowUse::kNothing)) {
    return;
  }
  followed.computed.insert(followed.computed.end(), read.begin(), read.end());
  followed.num_known = followed.computed.size();
  read_prompts_ = read_prompts_ || read.size() > 1 + SpeculativeConfig::kMaxTokens;
  if (whole) active_.push_back({&wish, &followed});
}

bool DraftModel::tell(const DraftWish& wish, Followed& followed, std::int32_t num_tokens,
                      RowUse use) {
  const BlockTable* const table = kv_.find(wish.request_id);
  const auto first_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  if (table != nullptr) {
    plan_.new_block_ids.insert(plan_.new_block_ids.end(), table->block_ids().begin(),
                               table->block_ids().end());
  }
  const auto first_new_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  const std::int32_t num_new_blocks = make_room(followed, num_tokens);
  if (num_new_blocks < 0) {
    plan_.new_block_ids.resize(static_cast<std::size_t>(first_block));
    return false;
  }
  plan_.new_requests.push_back(
      {.request_id = wish.request_id,
       .first_token = static_cast<std::int32_t>(plan_.new_token_ids.size()),
       .num_tokens = static_cast<std::int32_t>(wish.tokens.size()),
       .num_prompt_tokens = followed.request.num_prompt_tokens,
       .sample_index = followed.request.sample_index,
       .sampling_params = followed.request.sampling_params,
       .first_block = first_block,
       .num_blocks = first_new_block - first_block});
  plan_.new_token_ids.insert(plan_.new_token_ids.end(), wish.tokens.begin(), wish.tokens.end());
  known_.push_back(wish.request_id);
  schedule(followed, num_tokens, use, first_new_block, num_new_blocks);
  return true;
}

void DraftModel::schedule(const Followed& followed, std::int32_t num_tokens, RowUse use,
                          std::int32_t first_new_block, std::int32_t num_new_blocks) {
  plan_.scheduled.push_back(
      {.request_id = followed.request.id,
       .num_computed_tokens = static_cast<std::int32_t>(followed.computed.size()),
       .num_scheduled_tokens = num_tokens,
       .use = use,
       .first_new_block = first_new_block,
       .num_new_blocks = num_new_blocks});
  plan_.total_num_scheduled_tokens += num_tokens;
}

bool DraftModel::lay_out_next(const Active& active) {
  Followed& followed = *active.followed;
  const auto first_new_block = static_cast<std::int32_t>(plan_.new_block_ids.size());
  const std::int32_t num_new_blocks = make_room(followed, 1);
  if (num_new_blocks < 0) return false;
  schedule(followed, 1, RowUse::kTokens, first_new_block, num_new_blocks);
  followed.computed.push_back(active.wish->draft->tokens.back());
  return true;
}

bool DraftModel::compute() {
  const Status status = or_status([&]() -> Status {
    QUIRE_RETURN_IF_ERROR(runner_->forward(plan_, result_));
    return runner_->sample({}, result_);
  });
  plan_.clear();
  if (status.ok()) return true;
  failed_ = true;
  log_warning("speculation ends, the model that drafts has failed: {}", status.to_string());
  for (const Active& each : active_) each.wish->draft->tokens.clear();
  return false;
}

// A guess that is no token of the large model's is none.
void DraftModel::take_guesses() {
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const TokenId token = result_.sampled[i].token_id;
    if (token < vocab_size_) active_[i].wish->draft->tokens.push_back(token);
  }
  std::erase_if(active_, [this](const Active& each) { return !goes_on(each); });
}

// Nothing comes after the end.
bool DraftModel::goes_on(const Active& active) const {
  const std::vector<TokenId>& tokens = active.wish->draft->tokens;
  const DraftedRequest& request = active.followed->request;
  const std::size_t num_computed = active.followed->computed.size();
  if (tokens.empty() || std::ssize(tokens) == active.wish->most) return false;
  if (active.wish->tokens.size() + tokens.size() != num_computed + 1) return false;
  if (std::ssize(active.followed->computed) == config_.max_model_len) return false;
  return request.sampling_params->ignore_eos ||
         std::ranges::find(config_.eos_token_ids, tokens.back()) == config_.eos_token_ids.end();
}

DraftWork DraftModel::draft(std::span<const DraftWish> wishes) {
  for (const DraftWish& wish : wishes) {
    wish.draft->tokens.clear();
    wish.draft->match = 0;
  }
  if (wishes.empty() || failed_) return DraftWork::kNone;
  ++round_;
  read_prompts_ = false;
  active_.clear();
  plan_.clear();
  std::swap(plan_.removed_request_ids, known_);
  for (const DraftWish& wish : wishes) lay_out(wish);
  if (plan_.scheduled.empty()) {
    std::swap(plan_.removed_request_ids, known_);  // the runner has not been told
    return DraftWork::kNone;
  }
  while (compute()) {
    take_guesses();
    std::erase_if(active_, [this](const Active& each) { return !lay_out_next(each); });
    if (active_.empty()) break;
  }
  return read_prompts_ ? DraftWork::kPrompts : DraftWork::kSteps;
}

}  // namespace quire
