#include "serve/protocols/openai/text_limits.h"

#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

// OpenAI's words, by which clients tell that a shorter conversation would do.
constexpr std::string_view kContextLength = "This model's maximum context length is ";

}  // namespace

EncodeLimits prompt_limits(const Engine& engine, std::int64_t room, std::string_view field,
                           ClientGone gone) {
  const std::int64_t max_model_len = engine.info().max_model_len;
  EncodeLimits limits = text_limits(field, std::move(gone));
  limits.max_tokens = static_cast<std::size_t>(max_model_len - room);
  limits.remedy = context_remedy(engine,
                                 "Shorten it, set truncate_prompt_tokens, or start the server with "
                                 "a larger --max-model-len");
  return limits;
}

std::string context_remedy(const Engine& engine, std::string_view what_to_do) {
  // The code once more in the text: clients that only see the message (LangChain's) look for it
  // there.
  return fmt::format("{}{} tokens (context_length_exceeded). {}", kContextLength,
                     engine.info().max_model_len, what_to_do);
}

bool is_context_overflow(const Status& status) {
  return status.remedy().starts_with(kContextLength);
}

Status check_room(std::int64_t max_tokens, std::string_view field, std::int64_t num_prompt_tokens,
                  const Engine& engine) {
  const std::int64_t max_model_len = engine.info().max_model_len;
  if (max_tokens <= max_model_len - num_prompt_tokens) return {};
  return Status::invalid_argument(
      fmt::format("{}: {} is too large: the prompt has {} tokens, which leaves room for {}", field,
                  max_tokens, num_prompt_tokens, max_model_len - num_prompt_tokens),
      context_remedy(engine, fmt::format("Lower {}, or shorten the prompt", field)));
}

EncodeLimits text_limits(std::string_view field, ClientGone gone) {
  return {.max_tokens = kMaxTextTokens,
          .max_word_bytes = kMaxWordBytes,
          .cancelled = std::move(gone),
          .what = fmt::format("{}: the text", field)};
}

}  // namespace quire
