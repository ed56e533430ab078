// vocab.json and merges.txt, as GPT-2 published its vocabulary.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "load/tokenizer_ends.h"
#include "text/vocab_data.h"

namespace quire {

// Reads both from `folder`, added_tokens.json and special_tokens_map.json where they are there. How
// text is cut into words follows from tokenizer_config.json's tokenizer_class. kUnimplemented for a
// class that is not known (the message lists those that are), the errors of read_tokenizer_json().
Result<VocabData> read_merges_folder(const std::filesystem::path& folder,
                                     const TokenizerConfigs& configs);

}  // namespace quire
