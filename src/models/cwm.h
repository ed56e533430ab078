// Code World Model (Meta FAIR 2025, arXiv 2510.02387): Llama with a sliding window in three of four
// layers.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> cwm_from_config(const JsonReader& config);

}  // namespace quire
