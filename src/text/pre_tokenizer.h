// Cuts text into the words that BPE works on. Each named pattern has a scanner written by hand that
// reads every character a fixed number of times, where a regular-expression engine would need
// limits against input made to be slow.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/vocab_data.h"

namespace quire {

// The end of the word that starts at `begin` < text.size(); always > `begin`.
std::size_t word_end(PreTokenizer pre_tokenizer, std::string_view text, std::size_t begin);

}  // namespace quire
