// Mixtral (Jiang et al. 2024): Mistral with a mixture of experts in every layer.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> mixtral_from_config(const JsonReader& config);

}  // namespace quire
