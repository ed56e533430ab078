// Checkpoints as Mistral AI writes them (github.com/mistralai/mistral-inference, args.py): the
// configuration is params.json, tensors have the names of its transformer, and the rows of queries
// and keys lie as they turn, in pairs.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/spec.h"

namespace quire {

// Mistral's family, or Mixtral's where the file has `moe`. kBadModel for a key that is missing or
// of the wrong kind; kUnimplemented by name for every key that is not read, and what it would say.
Result<DecoderSpec> mistral_from_params(const JsonReader& params);

}  // namespace quire
