// Tokens as published to the bytes of a text. Internal to src/text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/pattern.h"
#include "text/utf8.h"
#include "text/vocab_data.h"

namespace quire {

// Every token adds its own bytes, whatever stands beside it, so that output can be returned as it
// comes; only the first token of a text, and the text's own start, may differ.
class TokenDecoder {
 public:
  // kUnimplemented naming a step that cannot be done token by token (one that needs the whole text,
  // or the end of it).
  static Result<TokenDecoder> create(std::vector<DecoderStep> steps);

  // What a token adds. An error is a limit of a pattern.
  Result<std::string> decode(std::string_view token, bool is_first) const;

  // Whether `is_first` makes a difference.
  bool first_token_differs() const { return first_token_differs_; }
  // Of the joined text, up to strip_count() times strip_content() goes from the front.
  std::uint32_t strip_count() const { return strip_count_; }
  std::string_view strip_content() const { return strip_content_; }
  // What stands for bytes that are not UTF-8.
  Utf8Repairer::Replace replacement() const {
    return byte_fallback_ ? Utf8Repairer::Replace::kEachByte : Utf8Repairer::Replace::kSequence;
  }

 private:
  struct Step {
    DecoderStep data;
    std::unique_ptr<const Pattern> pattern;  // kReplace only
  };

  std::vector<Step> steps_;  // those that work on each token
  bool first_token_differs_ = false;
  bool byte_fallback_ = false;
  std::uint32_t strip_count_ = 0;
  std::string strip_content_;
};

}  // namespace quire
