// BLOOM (BigScience 2022): linear biases instead of positions, a norm of the embeddings, layer
// norms, an MLP without a gate.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> bloom_from_config(const JsonReader& config);

}  // namespace quire
