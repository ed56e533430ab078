// A tokenizer from a model folder's tokenizer.json, as the Hugging Face `tokenizers` library writes
// it, with what the files beside it say about BOS and EOS.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// `where` names tokenizer.json in errors; the others may be null if the folder lacks them.
// Supported: BPE models, byte-level (ByteLevel, alone or after Digits) or SentencePiece-style
// (Prepend and Replace normalizers, or Metaspace). Errors: kUnimplemented naming the part and its
// type for anything else ("tokenizer.json: pre_tokenizer: type Split is not supported"), kBadModel
// for a file that breaks the format.
//
// End-of-sequence ids are those of generation_config.json, config.json and tokenizer_config.json
// together. BOS is added where tokenizer_config's add_bos_token says so, else where the
// post-processor does; EOS likewise.
Result<VocabData> read_tokenizer_json(const json::value& tokenizer_json,
                                      const json::object* tokenizer_config,
                                      const json::object* generation_config,
                                      const json::object* model_config, std::string_view where);

}  // namespace quire
