// OPT (Zhang et al. 2022) and Galactica: learned positions from row 2 on, layer norms, an MLP
// without a gate.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> opt_from_config(const JsonReader& config);

}  // namespace quire
