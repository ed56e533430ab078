// Tokens, their log probabilities and their count, as OpenAI's and vLLM's clients read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/api.h"

namespace quire {

struct TokenUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of them
  std::int64_t completion_tokens = 0;

  json::object to_json() const;
};

// Characters of UTF-8 text.
std::int64_t count_characters(std::string_view text);

// The text that a token adds; U+FFFD stands for bytes that are no character of their own.
std::string token_string(const Tokenizer& tokenizer, TokenId id);

// A log probability as JSON can say it: at least -9999.
double json_logprob(float logprob);

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}
json::object chat_logprobs(const Tokenizer& tokenizer, std::span<const PositionLogprobs> positions);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; offsets count characters from
// `offset`. An entry of `first` stands for a token that nothing precedes: its values are null.
json::object completion_logprobs(const Tokenizer& tokenizer,
                                 std::span<const PositionLogprobs> positions, std::int64_t offset,
                                 const TokenId* first = nullptr);

// vLLM's prompt_logprobs: null for the first token, then {"ID": {"logprob", "rank",
// "decoded_token"}, ...} for each.
json::array prompt_logprob_report(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                                  std::span<const PositionLogprobs> positions);

}  // namespace quire
