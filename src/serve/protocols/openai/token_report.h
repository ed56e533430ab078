// Tokens, their log probabilities and their count, as OpenAI's and vLLM's clients read them.
#pragma once

#include <cstdint>
#include <optional>
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
  // Guesses at them that were computed, right and wrong ones; shown where there were any.
  std::int64_t accepted_drafts = 0;
  std::int64_t rejected_drafts = 0;
  std::optional<double> cost;  // US dollars, of the whole answer; nullopt: not known (yet)

  json::object to_json() const;
};

// Characters of UTF-8 text.
std::int64_t count_characters(std::string_view text);

// The text that a token adds; U+FFFD stands for bytes that are no character of their own.
std::string token_string(const Tokenizer& tokenizer, TokenId id);

// A log probability as JSON can say it: at least -9999.
double json_logprob(float logprob);

// What follows appends JSON text to `out`, position by position: as a tree of values a large answer
// would need several times its text.

// {"token", "logprob", "bytes", "top_logprobs"} for each position, with a comma before each that
// follows another.
void append_chat_tokens(std::string& out, const Tokenizer& tokenizer,
                        std::span<const PositionLogprobs> positions);

// {"content": [...], "refusal": null}
void append_chat_logprobs(std::string& out, const Tokenizer& tokenizer,
                          std::span<const PositionLogprobs> positions);

// The positions of a completion: its prompt's, where it is echoed, then its output's.
struct CompletionPositions {
  const TokenId* first = nullptr;  // a token that nothing precedes: its values are null
  std::span<const PositionLogprobs> prompt = {};
  std::span<const PositionLogprobs> output = {};
};

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}; offsets count characters from
// `offset`.
void append_completion_logprobs(std::string& out, const Tokenizer& tokenizer,
                                const CompletionPositions& positions, std::int64_t offset);

// vLLM's prompt_logprobs: null for the first token, then {"ID": {"logprob", "rank",
// "decoded_token"}, ...} for each.
void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer,
                            std::span<const TokenId> prompt,
                            std::span<const PositionLogprobs> positions);

}  // namespace quire
