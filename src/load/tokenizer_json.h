// A tokenizer from a model folder's tokenizer.json, as the Hugging Face `tokenizers` library writes
// it, with what the files beside it say about BOS and EOS.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// `where` names tokenizer.json in errors; the others may be null if the folder lacks them.
// Supported: BPE, Unigram, WordPiece and WordLevel models with
//   normalizers      NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend,
//                    ByteLevel
//   pre-tokenizers   Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace,
//                    CharDelimiterSplit, BertPreTokenizer
//   post-processors  TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel
//   decoders         ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece
// each alone or in a Sequence. Errors: kUnimplemented naming the part and its type for anything
// else ("tokenizer.json: type Precompiled is not supported"), kBadModel for a file that breaks the
// format.
//
// End-of-sequence ids are those of generation_config.json, config.json and tokenizer_config.json
// together. The post-processor's tokens are put around a text; tokenizer_config's add_bos_token
// and add_eos_token remove them, or put BOS and EOS there where it has none.
Result<VocabData> read_tokenizer_json(const json::value& tokenizer_json,
                                      const json::object* tokenizer_config,
                                      const json::object* generation_config,
                                      const json::object* model_config, std::string_view where);

}  // namespace quire
