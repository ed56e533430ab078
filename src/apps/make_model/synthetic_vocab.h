// A byte-level BPE vocabulary of any size without a corpus: the 256 bytes, then merges of lowercase
// letters in the order of how common the letters are, then four control tokens. Every text can be
// encoded, and a random token is ordinary text, so that servers that keep back incomplete
// characters keep back next to nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace quire {

struct SyntheticVocab {
  // By id, spelled in GPT-2's byte alphabet; control tokens last, as plain text.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // most important first
  std::int64_t num_control_tokens = 0;
  std::int64_t bos_id = 0;
  std::int64_t eos_id = 0;
  std::int64_t end_of_turn_id = 0;

  std::int64_t first_control_id() const {
    return static_cast<std::int64_t>(tokens.size()) - num_control_tokens;
  }
};

// Sizes from 260 to about 475,000; kInvalidArgument for others.
Result<SyntheticVocab> make_synthetic_vocab(std::int64_t size);

// ChatML, with the control tokens above.
std::string_view synthetic_chat_template();

}  // namespace quire
