#include "text/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <functional>

namespace quire {

namespace {

struct SliceKind {
  CharSet set;
  std::vector<std::uint32_t> counts;
};

// What may stand in a JSON string as it is (DEL aside, which some leave out), a line of text, and a
// line of text without what begins a tag. Strings are often of a limited length.
std::vector<SliceKind> slice_kinds() {
  const CharSet line = ~CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return {{~CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}, {3, 6, 12, 24}},
          {line, {16}},
          {line & ~CharSet{{'<', '<'}}, {}}};
}

// Longer ones are not text that a model would write, and no token of a published vocabulary.
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
  result->bytes_begin_ = result->names_begin_ = {0};
  result->mask_words_ = (std::max(tokens.size(), num_logits) + 31) / 32;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokens[i].is_end) result->end_ids_.push_back(id);
    if (!tokens[i].is_end && tokens[i].bytes.size() <= kMaxTokenBytes) {
      result->bytes_ += tokens[i].bytes;
    }
    result->bytes_begin_.push_back(static_cast<std::uint32_t>(result->bytes_.size()));
    result->names_ += tokens[i].name;
    result->names_begin_.push_back(static_cast<std::uint32_t>(result->names_.size()));
    result->by_name_.emplace_back(std::hash<std::string_view>()(tokens[i].name), id);
  }
  std::sort(result->by_name_.begin(), result->by_name_.end());
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view bytes = result->bytes(static_cast<TokenId>(i));
    if (!bytes.empty()) texts.emplace_back(bytes, static_cast<TokenId>(i));
  }
  std::sort(texts.begin(), texts.end());
  for (const SliceKind& kind : slice_kinds()) {
    result->slices_.emplace_back(kind.set, kind.counts, texts, result->mask_words_);
  }
  result->trie_ = TokenTrie(texts);
  return result;
}

bool GrammarVocabulary::is_end(TokenId id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

std::optional<TokenId> GrammarVocabulary::find(std::string_view name) const {
  const std::size_t hash = std::hash<std::string_view>()(name);
  auto at = std::lower_bound(by_name_.begin(), by_name_.end(), std::pair(hash, TokenId{0}));
  for (; at != by_name_.end() && at->first == hash; ++at) {
    const auto index = static_cast<std::size_t>(at->second);
    const std::string_view known = std::string_view(names_).substr(
        names_begin_[index], names_begin_[index + 1] - names_begin_[index]);
    if (known == name) return at->second;
  }
  return std::nullopt;
}

}  // namespace quire
