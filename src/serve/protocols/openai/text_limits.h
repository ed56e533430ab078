// How far a request's text is turned into tokens: no further than its model accepts, and not for
// a client that has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/api.h"

namespace quire {

// Whether the client that waits for an answer has gone; may be empty. Asked now and then while a
// long text becomes tokens.
using ClientGone = std::function<bool()>;

// Of a text that is only counted, or whose beginning is cut away.
inline constexpr std::size_t kMaxTextTokens = 4'194'304;
// What no pre-tokenizer cuts: a run of one letter, say.
inline constexpr std::size_t kMaxWordBytes = 4U << 20;

// Of a prompt that has to fit, with `room` tokens for output. `field` is named by errors.
EncodeLimits prompt_limits(const Engine& engine, std::int64_t room, std::string_view field,
                           ClientGone gone);
// Said in one sentence, which clients know: the remedy of every error of this kind begins so.
std::string context_remedy(const Engine& engine, std::string_view what_to_do);
bool is_context_overflow(const Status& status);

// What `max_tokens` asks for, in the field of that name, has to fit behind the prompt.
Status check_room(std::int64_t max_tokens, std::string_view field, std::int64_t num_prompt_tokens,
                  const Engine& engine);

// Of a text that need not.
EncodeLimits text_limits(std::string_view field, ClientGone gone);

}  // namespace quire
