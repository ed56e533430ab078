// The answer to /completion and /infill, whole or as events, in llama.cpp's words.
#pragma once

#include <memory>

#include "serve/http/exchange.h"
#include "serve/protocols/openai/generation_answer.h"

namespace quire {

// Submits the job, of one prompt and one output, and answers on `exchange` as its output comes.
void answer_llama(std::shared_ptr<Exchange> exchange, GenerationJob job);

}  // namespace quire
