// Random prompts of a given length that no cache has seen: of token ids that the server's own
// tokenizer gave for ordinary words, else of those words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"

namespace quire::bench {

using TokenIds = std::vector<std::int32_t>;
using Prompt = std::variant<std::string, TokenIds, json::array>;  // an array: messages

class PromptSource {
 public:
  // Common English words, one space between them: what the server's tokenizer is asked about.
  static std::string_view words();

  // `token_pool`: ids of ordinary tokens. Empty: prompts are of words, about one token each.
  explicit PromptSource(TokenIds token_pool) : pool_(std::move(token_pool)) {}

  // Whether prompts have exactly as many tokens as asked for.
  bool exact() const { return !pool_.empty(); }

  // `length` tokens or words. The same stream gives the same prompt.
  Prompt draw(std::int64_t length, std::uint64_t stream) const;
  std::string draw_text(std::int64_t length, std::uint64_t stream) const;  // always words
  // One after the other.
  static Prompt join(const Prompt& first, const Prompt& second);

 private:
  TokenIds pool_;
};

}  // namespace quire::bench
