// vLLM's --pooler-config, which older releases call --override-pooler-config: how embeddings are
// made, as one JSON object.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/api.h"

namespace quire {

// Takes over what `text` asks for: pooling_type (or seq_pooling_type) and normalize (or
// use_activation). "{}", "None" and nothing at all ask for nothing. kInvalidArgument for what is no
// such object, kUnimplemented for a field that asks for what Quire does not have; both name `flag`.
Status read_pooler_config(const std::string& flag, const std::string& text, EngineArgs& args);

}  // namespace quire
