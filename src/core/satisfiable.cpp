#include "core/satisfiable.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {

Status check_satisfiable(const SamplingParams& params,
                         std::span<const std::vector<TokenId>> bad_words,
                         std::span<const TokenId> eos_token_ids, std::int64_t vocab_size) {
  std::vector<TokenId> banned;
  for (const std::vector<TokenId>& word : bad_words) {
    if (word.size() == 1) banned.push_back(word.front());
  }
  if (params.min_tokens > 0) {
    banned.insert(banned.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
    if (!params.ignore_eos) banned.insert(banned.end(), eos_token_ids.begin(), eos_token_ids.end());
  }
  std::ranges::sort(banned);
  banned.erase(std::unique(banned.begin(), banned.end()), banned.end());
  const char* const reason =
      params.min_tokens > 0 ? "min_tokens rules out tokens that end the output, bad_words its own"
                            : "bad_words rules them out";
  if (params.allowed_token_ids.empty()) {
    if (std::ssize(banned) < vocab_size) return {};
    return Status::invalid_argument("bad_words: no token is left to choose", reason);
  }
  const bool left = std::ranges::any_of(params.allowed_token_ids, [&](TokenId id) {
    return !std::ranges::binary_search(banned, id);
  });
  if (left) return {};
  return Status::invalid_argument("allowed_token_ids: none of them can be chosen", reason);
}

}  // namespace quire
