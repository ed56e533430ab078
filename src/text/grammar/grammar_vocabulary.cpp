#include "text/grammar/grammar_vocabulary.h"

#include <algorithm>

namespace quire {

namespace {

// What may stand in a JSON string as it is (DEL aside, which some leave out), a line of text, and a
// line of text without what begins a tag.
std::vector<CharSet> slice_sets() {
  const CharSet line = ~CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return {~CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}, line,
          line & ~CharSet{{'<', '<'}}};
}

constexpr std::size_t kMaxTokenBytes = 65535;

}  // namespace

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::create(const Tokenizer& tokenizer,
                                                                   std::size_t num_logits) {
  std::vector<Token> tokens(tokenizer.vocab_size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    tokens[i].name = tokenizer.token_text(id);
    tokens[i].is_end = tokenizer.is_eos(id);
    if (!tokenizer.is_special(id) && !tokens[i].is_end) tokens[i].bytes = tokenizer.token_bytes(id);
  }
  return create(tokens, num_logits);
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::create(std::span<const Token> tokens,
                                                                   std::size_t num_logits) {
  std::shared_ptr<GrammarVocabulary> result(new GrammarVocabulary);
  result->bytes_begin_ = {0};
  result->mask_words_ = (std::max(tokens.size(), num_logits) + 31) / 32;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokens[i].is_end) result->end_ids_.push_back(id);
    if (!tokens[i].is_end && tokens[i].bytes.size() <= kMaxTokenBytes) {
      result->bytes_ += tokens[i].bytes;
    }
    result->bytes_begin_.push_back(static_cast<std::uint32_t>(result->bytes_.size()));
    result->names_.emplace_back(tokens[i].name, id);
  }
  std::sort(result->names_.begin(), result->names_.end());
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view bytes = result->bytes(static_cast<TokenId>(i));
    if (!bytes.empty()) texts.emplace_back(bytes, static_cast<TokenId>(i));
  }
  std::sort(texts.begin(), texts.end());
  for (const CharSet& set : slice_sets()) {
    result->slices_.emplace_back(set, texts, result->mask_words_);
  }
  result->trie_ = TokenTrie(std::move(texts));
  return result;
}

bool GrammarVocabulary::is_end(TokenId id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

std::optional<TokenId> GrammarVocabulary::find(std::string_view name) const {
  const auto at = std::lower_bound(
      names_.begin(), names_.end(), name,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return at != names_.end() && at->first == name ? std::optional(at->second) : std::nullopt;
}

}  // namespace quire
