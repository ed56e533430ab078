#include "kernels/sampling/logit_editor.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Tokens that a position may have banned at once, without an allocation.
constexpr std::size_t kReservedBans = 4096;

// Stays finite at any penalty: only bans remove a token.
float repeated(float logit, double penalty) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto value = static_cast<double>(logit);
  return static_cast<float>(
      std::clamp(value > 0 ? value / penalty : value * penalty, -kMost, kMost));
}

}  // namespace

LogitEditor::LogitEditor(std::int64_t vocab_size) : counts_(static_cast<std::size_t>(vocab_size)) {
  saved_.reserve(kReservedBans);
}

std::uint64_t LogitEditor::bytes(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size) * sizeof(std::uint32_t) +
         kReservedBans * sizeof(float);
}

void LogitEditor::apply(const LogitEdits& edits, std::span<float> logits) {
  if (!edits.mask.empty()) keep_masked(edits.mask, logits);
  if (!edits.allowed.empty()) keep_allowed(edits.allowed, logits);
  for (const LogitBias& each : edits.biases) {
    logits[static_cast<std::size_t>(each.token_id)] += each.bias;
  }
  if (!edits.banned.empty()) ban(edits.banned, logits);
  if (edits.has_penalties()) penalize(edits, logits);
}

void LogitEditor::keep_masked(std::span<const std::uint32_t> mask, std::span<float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool allowed = i / 32 < mask.size() && (mask[i / 32] >> (i % 32) & 1) != 0;
    if (!allowed) logits[i] = kBanned;
  }
}

void LogitEditor::keep_allowed(std::span<const TokenId> allowed, std::span<float> logits) {
  for (const TokenId id : allowed) counts_[static_cast<std::size_t>(id)] = 1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (counts_[i] == 0) logits[i] = kBanned;
  }
  for (const TokenId id : allowed) counts_[static_cast<std::size_t>(id)] = 0;
}

void LogitEditor::ban(std::span<const TokenId> banned, std::span<float> logits) {
  saved_.clear();
  for (const TokenId id : banned) {
    saved_.push_back(logits[static_cast<std::size_t>(id)]);
    logits[static_cast<std::size_t>(id)] = kBanned;
  }
  if (std::ranges::any_of(logits, [](float logit) { return logit > kBanned; })) return;
  // Nothing would be left. In reverse, for an id that was banned twice.
  for (std::size_t i = banned.size(); i-- > 0;) {
    logits[static_cast<std::size_t>(banned[i])] = saved_[i];
  }
}

// As vLLM does: the repetition penalty (Keskar et al. 2019) once for each token of prompt or
// output, then frequency and presence by the output alone.
void LogitEditor::penalize(const LogitEdits& edits, std::span<float> logits) {
  const auto output = edits.token_ids.subspan(static_cast<std::size_t>(edits.num_prompt_tokens));
  if (edits.repetition_penalty != 1) {
    for (const TokenId id : edits.token_ids) {
      std::uint32_t& seen = counts_[static_cast<std::size_t>(id)];
      if (seen != 0) continue;
      seen = 1;
      float& logit = logits[static_cast<std::size_t>(id)];
      if (logit != kBanned) logit = repeated(logit, edits.repetition_penalty);
    }
    for (const TokenId id : edits.token_ids) counts_[static_cast<std::size_t>(id)] = 0;
  }
  if (edits.frequency_penalty == 0 && edits.presence_penalty == 0) return;
  for (const TokenId id : output) ++counts_[static_cast<std::size_t>(id)];
  for (const TokenId id : output) {
    std::uint32_t& count = counts_[static_cast<std::size_t>(id)];
    if (count == 0) continue;  // done before
    float& logit = logits[static_cast<std::size_t>(id)];
    logit -= static_cast<float>(edits.frequency_penalty) * static_cast<float>(count);
    logit -= static_cast<float>(edits.presence_penalty);
    count = 0;
  }
}

}  // namespace quire
