#include "exec/logit_transforms.h"

#include <algorithm>
#include <iterator>

namespace quire {
namespace {

// Whether the output ends with all but the last token of `word`.
bool completes(std::span<const TokenId> output, std::span<const TokenId> word) {
  const std::size_t length = word.size() - 1;
  return output.size() >= length && std::equal(word.begin(), word.end() - 1,
                                               output.end() - static_cast<std::ptrdiff_t>(length));
}

}  // namespace

void append_bans(const SampleContext& context, std::span<const TokenId> eos_token_ids,
                 std::vector<TokenId>& bans) {
  const SamplingParams& params = *context.params;
  for (const std::vector<TokenId>& word : params.bad_words_token_ids) {
    if (completes(context.output(), word)) bans.push_back(word.back());
  }
  if (std::ssize(context.output()) >= params.min_tokens) return;
  bans.insert(bans.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  if (!params.ignore_eos) bans.insert(bans.end(), eos_token_ids.begin(), eos_token_ids.end());
}

LogitEdits edits_of(const SampleContext& context, std::span<const TokenId> bans) {
  const SamplingParams& params = *context.params;
  return {.mask = context.mask,
          .allowed = params.allowed_token_ids,
          .biases = params.logit_bias,
          .banned = bans,
          .repetition_penalty = params.repetition_penalty,
          .presence_penalty = params.presence_penalty,
          .frequency_penalty = params.frequency_penalty,
          .token_ids = context.token_ids,
          .num_prompt_tokens = context.num_prompt_tokens};
}

TokenDraw draw_of(const SamplingParams& params, double uniform) {
  return {.greedy = params.greedy(),
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .uniform = uniform};
}

}  // namespace quire
