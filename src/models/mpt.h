// MPT (MosaicML 2023): linear biases instead of positions, layer norms without biases, an MLP
// without a gate.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> mpt_from_config(const JsonReader& config);
extern const GgufForm kMptGguf;

}  // namespace quire
