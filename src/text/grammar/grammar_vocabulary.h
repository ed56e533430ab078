// A tokenizer's tokens as grammars look at them: what each adds to the text, in an order in which
// tokens with a common beginning are looked at together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/token_slice.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace quire {

// Immutable: any number of threads and grammars share one. Made once for a tokenizer: about 1 us
// and 120 bytes for each token.
class GrammarVocabulary {
 public:
  struct Token {
    std::string bytes;    // that it adds to a text; empty: it can never be text
    std::string name;     // as published
    bool is_end = false;  // ends a sequence, and can never be text
  };

  // Special tokens and those that end a sequence have no bytes here, so that no text is matched by
  // them. The mask has room for `num_logits` >= vocab_size() tokens (checkpoints pad their
  // embeddings), those beyond are never allowed.
  static std::shared_ptr<const GrammarVocabulary> create(const Tokenizer& tokenizer,
                                                         std::size_t num_logits = 0);
  static std::shared_ptr<const GrammarVocabulary> create(std::span<const Token> tokens,
                                                         std::size_t num_logits = 0);

  std::size_t size() const { return bytes_begin_.size() - 1; }
  // Words of 32 tokens in a mask, as in exec/executor.h's TokenMask.
  std::size_t mask_words() const { return mask_words_; }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  // Empty for a token that is never text.
  std::string_view bytes(TokenId id) const {
    const auto index = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(bytes_begin_[index],
                                           bytes_begin_[index + 1] - bytes_begin_[index]);
  }
  std::span<const TokenId> end_ids() const { return end_ids_; }
  bool is_end(TokenId id) const;
  // A token as published, special or not.
  std::optional<TokenId> find(std::string_view name) const;

  const TokenTrie& trie() const { return trie_; }
  std::span<const TokenSlice> slices() const { return slices_; }

 private:
  GrammarVocabulary() = default;

  std::string bytes_;
  std::vector<std::uint32_t> bytes_begin_;
  std::vector<TokenId> end_ids_;
  std::string names_;
  std::vector<std::uint32_t> names_begin_;
  std::vector<std::pair<std::size_t, TokenId>> by_name_;  // hashes of names, sorted
  std::size_t mask_words_ = 0;
  TokenTrie trie_;
  std::vector<TokenSlice> slices_;
};

}  // namespace quire
