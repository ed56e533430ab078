// The parts of tokenizer.json around its model: normalizer, pre-tokenizer, decoder and
// post-processor. Internal to tokenizer_json.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "load/tokenizer_ends.h"
#include "text/vocab_data.h"

namespace quire {

// Sets style, normalizers, pre_tokenizers, decoders and byte_fallback in `data`.
Status read_tokenizer_pipeline(const JsonReader& tokenizer_json, VocabData& data);

Result<AddedEnds> read_post_processor(const JsonReader& tokenizer_json);

}  // namespace quire
