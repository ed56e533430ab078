// Mistral (Jiang et al. 2023): Llama with a sliding window in every layer. GGUF files call it
// "llama".
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> mistral_from_config(const JsonReader& config);

}  // namespace quire
