// Helium (Kyutai 2025): Llama whose neighbouring dimensions of a head turn together.
#pragma once

#include "base/json.h"
#include "models/spec.h"

namespace quire {

Result<DecoderSpec> helium_from_config(const JsonReader& config);

}  // namespace quire
