// What sampling starts from where a person talks with a model: `quire chat`, `quire generate
// --chat` and the page. (The API keeps OpenAI's and vLLM's defaults.)
#pragma once

#include "engine/api.h"

namespace quire {

struct ConversationDefaults {
  // The engine's defaults; where the model recommends none of temperature, top_k, top_p and min_p,
  // temperature 0.7, top_p 0.95 and min_p 0.05.
  SamplingParams params;
  bool recommended = false;  // by the model
};

ConversationDefaults conversation_defaults(const Engine& engine);

}  // namespace quire
