#include "serve/protocols/conversation_defaults.h"

#include <algorithm>

namespace quire {

ConversationDefaults conversation_defaults(const Engine& engine) {
  const auto fields = engine.generation_config_fields();
  const bool recommended = std::ranges::any_of(fields, [](const std::string& field) {
    return field == "temperature" || field == "top_k" || field == "top_p" || field == "min_p";
  });
  ConversationDefaults defaults = {.params = engine.default_sampling_params(),
                                   .recommended = recommended};
  if (!recommended) {
    defaults.params.temperature = 0.7;
    defaults.params.top_p = 0.95;
    defaults.params.min_p = 0.05;
  }
  return defaults;
}

}  // namespace quire
