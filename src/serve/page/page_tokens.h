// A text, or a conversation's prompt, token by token: what the model is given. /tokenize tells ids
// and strings as vLLM does; the page also needs to know which tokens are special, and the bytes of
// those that are no text by themselves.
#pragma once

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

// POST /page/tokens with {"text"} (control tokens in it count where "parse_special" is true) or
// {"messages", ...} as for chat completions. Answers
// {"count", "max_model_len", "tokens": [{"id", "text"} or {"id", "bytes": "e2 96"}, ...]}, with
// "special": true on control tokens. At most 1 MiB of body.
Route page_tokens_route(Service& service);

}  // namespace quire
