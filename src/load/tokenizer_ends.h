// What the files beside a vocabulary say of it: BOS, EOS and added tokens.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// Null where the folder lacks the file.
struct TokenizerConfigs {
  const json::object* tokenizer_config = nullptr;
  const json::object* generation_config = nullptr;
  const json::object* model_config = nullptr;
};

// What is put around a text unless the configurations say otherwise.
struct AddedEnds {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

// Sets bos_id, prefix_ids and suffix_ids of `data` and adds to its eos_ids: those of
// generation_config.json, config.json and tokenizer_config.json together. tokenizer_config's
// add_bos_token and add_eos_token remove what `ends` has, or put BOS and EOS there where it has
// none. kBadModel for ids and names that are no tokens.
Status read_tokenizer_ends(const AddedEnds& ends, const TokenizerConfigs& configs, VocabData& data);

// Ids may leave gaps, but those of all tokens together no more than this: an absurd id must not
// need much memory.
inline constexpr std::size_t kMaxUnusedIds = 250'000;

// Adds the tokens of tokenizer_config.json's added_tokens_decoder ({"ID": {"content", "special",
// ...}}) to `data`: those that it lacks, and the flags of those that it has. kBadModel for an id
// beyond gaps of more than kMaxUnusedIds, and for one whose token is another.
Status read_added_tokens_decoder(const json::object* tokenizer_config, VocabData& data);

// The same for one token.
Status add_token(const AddedToken& token, std::string_view where, VocabData& data);

}  // namespace quire
