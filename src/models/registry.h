// The model families that Quire knows, by the names that checkpoints use for them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"
#include "weights/gguf.h"

namespace quire {

// From a Hugging Face `config.json`, by its first entry of `architectures`. kBadModel for a missing
// or inconsistent key, kUnimplemented for an architecture that is not in the registry or a value
// that changes results and is not supported; both name file and key.
Result<DecoderSpec> spec_from_config(const JsonReader& config);

// From Mistral AI's `params.json` (mistral_params.h). Errors as above.
Result<DecoderSpec> spec_from_params(const JsonReader& params);

// From GGUF keys, by `general.architecture`. Errors as above.
Result<DecoderSpec> spec_from_gguf(const GgufFile& file);

// Architecture names of the registry, for messages.
std::vector<std::string> known_architectures();

}  // namespace quire
