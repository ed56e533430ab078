#include "engine/chat_input.h"

#include <ctime>

namespace quire {

ChatTemplateInput chat_input(const Tokenizer& tokenizer) {
  ChatTemplateInput input;
  if (const auto bos = tokenizer.bos_id()) {
    input.special_tokens.emplace_back("bos_token", tokenizer.token_text(*bos));
  }
  if (!tokenizer.eos_ids().empty()) {
    input.special_tokens.emplace_back("eos_token", tokenizer.token_text(tokenizer.eos_ids()[0]));
  }
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &input.local_time);
  return input;
}

}  // namespace quire
