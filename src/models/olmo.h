// OLMo (Groeneveld et al. 2024): Llama with layer norms that have no parameters.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> olmo_from_config(const JsonReader& config);

}  // namespace quire
