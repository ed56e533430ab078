// XGLM (Lin et al. 2021): sinusoidal positions, scaled embeddings, layer norms, an MLP without a
// gate.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> xglm_from_config(const JsonReader& config);

}  // namespace quire
