#include "exec/logit_transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Tokens that a position may have banned at once, without an allocation.
constexpr std::size_t kReservedBans = 4096;

// Whether the output ends with all but the last token of `word`.
bool completes(std::span<const TokenId> output, std::span<const TokenId> word) {
  const std::size_t length = word.size() - 1;
  return output.size() >= length && std::equal(word.begin(), word.end() - 1,
                                               output.end() - static_cast<std::ptrdiff_t>(length));
}

// Stays finite at any penalty: only bans remove a token.
float repeated(float logit, double penalty) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto value = static_cast<double>(logit);
  return static_cast<float>(
      std::clamp(value > 0 ? value / penalty : value * penalty, -kMost, kMost));
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

}  // namespace

LogitTransforms::LogitTransforms(std::int64_t vocab_size)
    : counts_(static_cast<std::size_t>(vocab_size)) {
  banned_.reserve(kReservedBans);
  saved_.reserve(kReservedBans);
}

std::uint64_t LogitTransforms::bytes(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size) * sizeof(std::uint32_t) +
         kReservedBans * (sizeof(TokenId) + sizeof(float));
}

bool LogitTransforms::needed(const SampleContext& context) {
  const SamplingParams& params = *context.params;
  return !context.mask.empty() || !params.allowed_token_ids.empty() ||
         !params.bad_words_token_ids.empty() || !params.logit_bias.empty() ||
         std::ssize(context.output()) < params.min_tokens || has_penalties(params);
}

void LogitTransforms::apply(const SampleContext& context, std::span<const TokenId> eos_token_ids,
                            std::span<float> logits) {
  const SamplingParams& params = *context.params;
  if (!context.mask.empty()) keep_masked(context.mask, logits);
  if (!params.allowed_token_ids.empty()) keep_allowed(params.allowed_token_ids, logits);
  for (const LogitBias& each : params.logit_bias) {
    logits[static_cast<std::size_t>(each.token_id)] += each.bias;
  }
  ban(context, eos_token_ids, logits);
  if (has_penalties(params)) penalize(context, logits);
}

void LogitTransforms::keep_masked(std::span<const std::uint32_t> mask, std::span<float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool allowed = i / 32 < mask.size() && (mask[i / 32] >> (i % 32) & 1) != 0;
    if (!allowed) logits[i] = kBanned;
  }
}

void LogitTransforms::keep_allowed(std::span<const TokenId> allowed, std::span<float> logits) {
  for (const TokenId id : allowed) counts_[static_cast<std::size_t>(id)] = 1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (counts_[i] == 0) logits[i] = kBanned;
  }
  for (const TokenId id : allowed) counts_[static_cast<std::size_t>(id)] = 0;
}

void LogitTransforms::ban(const SampleContext& context, std::span<const TokenId> eos_token_ids,
                          std::span<float> logits) {
  const SamplingParams& params = *context.params;
  banned_.clear();
  for (const std::vector<TokenId>& word : params.bad_words_token_ids) {
    if (completes(context.output(), word)) banned_.push_back(word.back());
  }
  if (std::ssize(context.output()) < params.min_tokens) {
    banned_.insert(banned_.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
    if (!params.ignore_eos) {
      banned_.insert(banned_.end(), eos_token_ids.begin(), eos_token_ids.end());
    }
  }
  if (banned_.empty()) return;
  saved_.clear();
  for (const TokenId id : banned_) {
    saved_.push_back(logits[static_cast<std::size_t>(id)]);
    logits[static_cast<std::size_t>(id)] = kBanned;
  }
  if (std::ranges::any_of(logits, [](float logit) { return logit > kBanned; })) return;
  // Nothing would be left. In reverse, for an id that was banned twice.
  for (std::size_t i = banned_.size(); i-- > 0;) {
    logits[static_cast<std::size_t>(banned_[i])] = saved_[i];
  }
}

// As vLLM does: the repetition penalty (Keskar et al. 2019) once for each token of prompt or
// output, then frequency and presence by the output alone.
void LogitTransforms::penalize(const SampleContext& context, std::span<float> logits) {
  const SamplingParams& params = *context.params;
  if (params.repetition_penalty != 1) {
    for (const TokenId id : context.token_ids) {
      std::uint32_t& seen = counts_[static_cast<std::size_t>(id)];
      if (seen != 0) continue;
      seen = 1;
      float& logit = logits[static_cast<std::size_t>(id)];
      if (logit != kBanned) logit = repeated(logit, params.repetition_penalty);
    }
    for (const TokenId id : context.token_ids) counts_[static_cast<std::size_t>(id)] = 0;
  }
  if (params.frequency_penalty == 0 && params.presence_penalty == 0) return;
  for (const TokenId id : context.output()) ++counts_[static_cast<std::size_t>(id)];
  for (const TokenId id : context.output()) {
    std::uint32_t& count = counts_[static_cast<std::size_t>(id)];
    if (count == 0) continue;  // done before
    float& logit = logits[static_cast<std::size_t>(id)];
    logit -= static_cast<float>(params.frequency_penalty) * static_cast<float>(count);
    logit -= static_cast<float>(params.presence_penalty);
    count = 0;
  }
}

}  // namespace quire
