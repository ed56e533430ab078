// The parts of tokenizer.json around its model: normalizer, pre-tokenizer, decoder and
// post-processor. Internal to tokenizer_json.cpp.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// Sets style, pre_tokenizer and the fields of normalization and decoding in `data`.
Status read_tokenizer_pipeline(const JsonReader& tokenizer_json, VocabData& data);

// What the post-processor puts around a text.
struct AddedEnds {
  std::optional<TokenId> before;
  std::optional<TokenId> after;
};
Result<AddedEnds> read_post_processor(const JsonReader& tokenizer_json);

}  // namespace quire
