#include "serve/protocols/openai/text_limits.h"

#include <utility>

#include <fmt/format.h>

namespace quire {

EncodeLimits prompt_limits(const Engine& engine, std::int64_t room, std::string_view field,
                           ClientGone gone) {
  const std::int64_t max_model_len = engine.info().max_model_len;
  EncodeLimits limits = text_limits(field, std::move(gone));
  limits.max_tokens = static_cast<std::size_t>(max_model_len - room);
  limits.remedy = fmt::format("shorten it, set truncate_prompt_tokens, or raise --max-model-len {}",
                              max_model_len);
  return limits;
}

EncodeLimits text_limits(std::string_view field, ClientGone gone) {
  return {.max_tokens = kMaxTextTokens,
          .max_word_bytes = kMaxWordBytes,
          .cancelled = std::move(gone),
          .what = fmt::format("{}: the text", field)};
}

}  // namespace quire
