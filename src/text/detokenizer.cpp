#include "text/detokenizer.h"

#include <algorithm>

namespace quire {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         std::span<const TokenId> prompt_token_ids)
    : tokenizer_(&tokenizer),
      repairer_(tokenizer.style() == BpeStyle::kSentencePiece ? Utf8Repairer::Replace::kEachByte
                                                              : Utf8Repairer::Replace::kSequence),
      skip_special_tokens_(skip_special_tokens) {
  at_start_ = std::ranges::none_of(prompt_token_ids, [this](TokenId id) { return shows(id); });
}

// Whether a token takes part in the text at all.
bool Detokenizer::shows(TokenId id) const {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return false;
  return !tokenizer_->token_bytes(id).empty();
}

std::string Detokenizer::add(TokenId id) {
  std::string text;
  if (!shows(id)) return text;
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (at_start_) {
    at_start_ = false;
    switch (tokenizer_->leading_space()) {
      case LeadingSpace::kKeep:
        break;
      case LeadingSpace::kStripOne:
        if (bytes.front() == ' ') bytes.remove_prefix(1);
        break;
      case LeadingSpace::kStripFirstToken: {
        std::string stripped(bytes);
        std::erase(stripped, ' ');
        repairer_.append(stripped, text);
        return text;
      }
    }
  }
  repairer_.append(bytes, text);
  return text;
}

std::string Detokenizer::flush() {
  std::string text;
  repairer_.flush(text);
  return text;
}

}  // namespace quire
