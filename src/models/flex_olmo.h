// FlexOlmo (Shi et al. 2025): OLMoE with OLMo 2's norms after the blocks.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> flex_olmo_from_config(const JsonReader& config);

}  // namespace quire
