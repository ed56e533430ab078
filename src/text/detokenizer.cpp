#include "text/detokenizer.h"

#include <algorithm>

#include "text/token_decoder.h"

namespace quire {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         std::span<const TokenId> prompt_token_ids, std::span<const TokenId> shown)
    : tokenizer_(&tokenizer),
      repairer_(tokenizer.decoder().replacement()),
      skip_special_tokens_(skip_special_tokens) {
  if (!shown.empty()) {
    shown_ = std::make_shared<const std::vector<TokenId>>(shown.begin(), shown.end());
  }
  at_start_ = std::ranges::none_of(prompt_token_ids, [this](TokenId id) { return shows(id); });
  if (at_start_) strip_count_ = tokenizer.decoder().strip_count();
}

// Whether a token takes part in the text at all.
bool Detokenizer::shows(TokenId id) const {
  if (skip_special_tokens_ && tokenizer_->is_special(id) &&
      (shown_ == nullptr || !std::ranges::binary_search(*shown_, id))) {
    return false;
  }
  return !tokenizer_->token_text(id).empty();
}

std::string Detokenizer::add(TokenId id) {
  std::string text;
  if (!shows(id)) return text;
  repairer_.append(at_start_ ? tokenizer_->first_token_bytes(id) : tokenizer_->token_bytes(id),
                   text);
  at_start_ = false;
  strip_start(text);
  return text;
}

void Detokenizer::strip_start(std::string& text) {
  const std::string_view content = tokenizer_->decoder().strip_content();
  while (strip_count_ > 0 && !text.empty()) {
    if (text.starts_with(content)) {
      text.erase(0, content.size());
      --strip_count_;
    } else {
      strip_count_ = 0;
    }
  }
}

std::string Detokenizer::flush() {
  std::string text;
  repairer_.flush(text);
  strip_start(text);
  return text;
}

}  // namespace quire
