// Where one output is in a grammar: which tokens may come next, and on with the one that came.
//
//   GrammarMatcher matcher(compiled);
//   matcher.fill_mask(words);     // of the row
//   matcher.accept(token);        // what was sampled
//   matcher.rollback(1);          // it was a guess
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/compiled_grammar.h"

namespace quire {

// One thread at a time for one matcher; matchers of one grammar may be used by many. Copying takes
// time and memory linear in the number of tokens accepted, 4 bytes each.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);

  const CompiledGrammar& grammar() const { return *grammar_; }

  // The tokens that may come next: bit i % 32 of word i / 32 is set for token i, all other bits are
  // cleared. `words` has vocabulary().mask_words() elements. The tokens that end a sequence are
  // among them exactly where the grammar can end, and alone after one was accepted.
  // kResourceExhausted naming a limit (max_set_items; max_cache_bytes where a single mask needs
  // more); kInvalidArgument where text has to follow that no token of the vocabulary begins.
  Status fill_mask(std::span<std::uint32_t> words);

  static constexpr std::uint32_t kMostClosingBytes = 10'000;
  // How many tokens, at most, bring the text to its end, the one that ends the sequence not
  // counted; the shortest text in bytes is what they spell. Where it is n > 0, one of the tokens
  // that may come next leaves n - 1. Nullopt: more than kMostClosingBytes are left, or the
  // vocabulary cannot spell them. kResourceExhausted naming a limit.
  Result<std::optional<std::uint32_t>> tokens_to_end();
  // Of the tokens in `words`, which fill_mask has filled, leaves out those behind which that is
  // more than `most`, which is at least 0. Looks at all of them where a place is come to first.
  // Errors as of fill_mask.
  Status keep_closable(std::uint32_t most, std::span<std::uint32_t> words);

  // Goes on. False: the token cannot come here, and nothing changed.
  bool accept(TokenId token);
  // Whether accept() would be true.
  bool allows(TokenId token);
  // Text in place of tokens; it counts as one token for rollback(). False: it cannot come here, and
  // nothing changed.
  bool accept_text(std::string_view bytes);

  // Takes the last `count` accepted tokens back; `count` <= num_accepted().
  void rollback(std::size_t count);
  std::size_t num_accepted() const { return sets_.size() - 1; }

  // Whether what was accepted is a text of the grammar.
  bool can_end();
  // Whether it is one and nothing can follow but the end.
  bool must_end();
  // Whether a token that ends a sequence was accepted.
  bool is_finished() const { return num_ends_ > 0; }

  // The bytes that have to come next, up to the first place where there is a choice (to end is
  // one), at most `max_bytes`. They may end within a character.
  std::string forced_text(std::size_t max_bytes = 4096);
  // The token that has to come next, where the grammar has a single token here and nothing else.
  std::optional<TokenId> forced_token();

 private:
  std::uint32_t current() const { return sets_.back(); }
  // The store's lock; the store is another one afterwards where it was full, with `sets_` in it.
  std::unique_lock<std::mutex> lock_store();
  // What `ask(store)` says, of a fresh store where another one does not have enough room.
  template <typename Ask>
  Status ask_store(Ask ask);
  std::unique_lock<std::mutex> renew_store(std::unique_lock<std::mutex> old_lock);
  // The set behind a token, 0 where it cannot come.
  std::uint32_t behind(TokenId token);

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<ParseStore> store_;
  std::vector<std::uint32_t> sets_;  // of store_, behind each accepted token; the first before any
  std::size_t num_ends_ = 0;         // accepted tokens that end a sequence
};

}  // namespace quire
