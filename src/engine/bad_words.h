// SamplingParams::bad_words as a model's tokens.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace quire {

// The token ids of each word as it stands and, where that is another form of the same length, with
// a space before it: within a text a word usually has one. vLLM's rule.
Result<std::vector<std::vector<TokenId>>> bad_words_token_ids(
    const Tokenizer& tokenizer, const std::vector<std::string>& words);

}  // namespace quire
