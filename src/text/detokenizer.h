// Tokens to text as they are generated. A token may end within a character; the text that is
// returned never does: the bytes of an unfinished character wait for the next token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {

// The state of one output. Borrows the tokenizer. Cheap to copy, so that a copy can look ahead.
class Detokenizer {
 public:
  // `prompt_token_ids` are what the output continues: the leading space that decoding strips from a
  // text's start is kept if the prompt has shown text already. Of the special tokens that are
  // skipped, those of `shown` (increasing) are not.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens = true,
                       std::span<const TokenId> prompt_token_ids = {},
                       std::span<const TokenId> shown = {});

  // The text that `id` completes: whole characters, possibly none. U+FFFD stands for bytes that can
  // no longer become a character. An id outside the vocabulary adds nothing.
  std::string add(TokenId id);

  // The end: U+FFFD for an unfinished character, else nothing.
  std::string flush();

 private:
  bool shows(TokenId id) const;
  void strip_start(std::string& text);

  const Tokenizer* tokenizer_;
  Utf8Repairer repairer_;
  bool skip_special_tokens_;
  std::shared_ptr<const std::vector<TokenId>> shown_;  // null: none
  bool at_start_ = true;                               // no token has been shown yet
  std::uint32_t strip_count_ = 0;  // characters that may yet be stripped from the text's start
};

}  // namespace quire
