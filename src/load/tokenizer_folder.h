// The vocabulary of a model folder that has no tokenizer.json, from what it has in its place.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "load/tokenizer_ends.h"
#include "text/vocab_data.h"

namespace quire {

// In this order: tekken.json; tokenizer.model, SentencePiece's or tiktoken's; a .tiktoken file;
// vocab.json with merges.txt. What a file does not say itself (how tiktoken's and vocab.json's text
// is cut into words) is known for the classes of tokenizers that tokenizer_config.json's
// tokenizer_class may name. kBadModel where there is none of them, with what was looked for;
// kUnimplemented for a class that is not known; the readers' errors.
Result<VocabData> read_tokenizer_folder(const std::filesystem::path& folder,
                                        const TokenizerConfigs& configs);

}  // namespace quire
