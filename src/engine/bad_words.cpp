#include "engine/bad_words.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<std::vector<std::vector<TokenId>>> bad_words_token_ids(
    const Tokenizer& tokenizer, const std::vector<std::string>& words) {
  const EncodeOptions plain = {.add_special_tokens = false, .parse_special = false};
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> start, tokenizer.encode(bare, plain));
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> within, tokenizer.encode(" " + bare, plain));
    const bool other =
        !within.empty() && !start.empty() && within[0] != start[0] && within.size() == start.size();
    if (!start.empty()) ids.push_back(std::move(start));
    if (other) ids.push_back(std::move(within));
  }
  return ids;
}

}  // namespace quire
