// Earley sets of one grammar, each kept once, with the way from each to the next and its mask.
// Internal to src/text/grammar.
//
// A set is known by its kernel: pairs of a state that a byte has led to and the set in which its
// rule began; where that rule has come to its end, in place of it what follows where it was called.
// What the kernel implies (rules that end here, rules that may begin here) is found
// once. The sets in which rules began are older, so kernels form no circle, and sets that are equal
// have the same texts behind them however they were reached: a place within a list's tenth element
// is the same set as within its second. (Earley 1970; rules that may be empty as in Aycock and
// Horspool, "Practical Earley Parsing", 2002.)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/limits.h"
#include "text/grammar/open_states.h"
#include "text/grammar/rule_automata.h"

namespace quire {

using ParseSetId = std::uint32_t;

class ParseClosing;

// Whoever calls anything but mutex() has locked it.
class ParseStore {
 public:
  static constexpr ParseSetId kDead = 0;   // nothing fits
  static constexpr ParseSetId kFirst = 1;  // before any text

  // All three outlive it.
  ParseStore(const RuleAutomata& automata, const GrammarVocabulary& vocabulary,
             const GrammarLimits& limits);
  ~ParseStore();

  std::mutex& mutex() { return mutex_; }

  ParseSetId next(ParseSetId set, std::uint8_t byte) {
    return next_by_class(set, automata_->class_of[byte]);
  }
  ParseSetId next(ParseSetId set, std::string_view bytes);
  // By the token itself and by its bytes.
  ParseSetId next_token(ParseSetId set, TokenId token);
  bool can_end(ParseSetId set) const { return sets_[set].can_end; }

  // All bytes that may come next, as far as two are distinct: first the one, then another.
  struct NextBytes {
    int count = 0;  // 0, 1, or 2 for any more
    std::uint8_t byte = 0;
  };
  NextBytes next_bytes(ParseSetId set) const;
  // Tokens that may come next by themselves, each once.
  std::vector<TokenId> next_tokens(ParseSetId set) const;

  // As GrammarMatcher::fill_mask, but for the tokens that end a sequence where no text is left.
  Status fill_mask(ParseSetId set, std::span<std::uint32_t> words);

  // How texts come to their end from its sets; made when it is first asked for.
  ParseClosing& closing();

  // Whether it should be left for a fresh one.
  bool is_full() const { return used() > limits_->max_cache_bytes || has_failed_; }
  // Why sets are missing since the last call, if they are; results since are to be thrown away.
  Status take_error();

  // The sets of another store here, in the same order.
  std::vector<ParseSetId> adopt(const ParseStore& other, std::span<const ParseSetId> sets);

 private:
  friend class ParseClosing;

  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Item {
    std::uint32_t state = 0;
    ParseSetId origin = 0;  // kDead: the text's beginning, of the root rule
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  struct Set {
    std::uint32_t kernel = 0;  // first of `kernel_size` items
    std::uint32_t kernel_size = 0;
    std::uint32_t items = 0;  // first of `num_items` that lead on
    std::uint32_t num_items = 0;
    std::uint32_t row = kNone;   // of the next sets by class
    std::uint32_t mask = kNone;  // of masks_
    std::uint32_t depth = 0;     // rules within rules of what calls others here
    bool can_end = false;
  };
  // The tokens themselves where they are few, else words.
  struct Mask {
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> words;
  };

  std::span<const Item> kernel_of(ParseSetId set) const {
    return {pool_.data() + sets_[set].kernel, sets_[set].kernel_size};
  }
  std::span<const Item> items_of(ParseSetId set) const {
    return {pool_.data() + sets_[set].items, sets_[set].num_items};
  }

  ParseSetId next_by_class(ParseSetId set, std::uint8_t byte_class) {
    const std::uint32_t row = sets_[set].row;
    if (row != kNone) {
      const ParseSetId known = rows_[row + byte_class];
      if (known != kNone) return known;
    }
    return find_next(set, byte_class);
  }
  ParseSetId find_next(ParseSetId set, std::uint8_t byte_class);
  // The set of the items, which are sorted and made unique; kDead for none.
  ParseSetId intern(std::vector<Item>& kernel);
  void grow_table();
  static std::size_t hash_of(std::span<const Item> kernel);
  // Fills in what the kernel of the newest set implies.
  void close_newest();
  void load_closure(std::span<const Item> items);
  bool complete();
  // In place of rules that end here what follows them where they were called.
  void take_back_ends(std::vector<Item>& kernel);
  bool leads_on(const Item& item) const {
    if (open_.has(item.state)) return open_.leads_on(item.state);
    return !automata_->bytes[item.state].empty() || !automata_->calls[item.state].empty() ||
           !automata_->tokens[item.state].empty();
  }

  // What RuleAutomata says of a state, of those of open automata too.
  std::uint32_t next_state(std::uint32_t state, std::uint8_t byte) {
    return open_.has(state) ? open_.next(state, byte) : automata_->next(state, byte);
  }
  bool accepts(std::uint32_t state) {
    return open_.has(state) ? open_.accepts(state) : automata_->accepting[state];
  }
  std::uint32_t rule_of(std::uint32_t state) const {
    return open_.has(state) ? open_.rule_of(state) : automata_->rule_of[state];
  }
  std::uint32_t height(std::uint32_t state) const {
    return open_.has(state) ? 0 : automata_->height[state];
  }
  std::span<const RuleAutomata::ByteEdge> bytes_of(std::uint32_t state) const {
    if (open_.has(state)) return {};
    return automata_->bytes[state];
  }
  std::span<const RuleAutomata::CallEdge> calls_of(std::uint32_t state) const {
    if (open_.has(state)) return {};
    return automata_->calls[state];
  }
  std::span<const RuleAutomata::TokenEdge> tokens_of(std::uint32_t state) const {
    if (open_.has(state)) return {};
    return automata_->tokens[state];
  }
  // Whether closure_ has more items than there may be; it is cleared then, and error_ says so.
  bool is_too_ambiguous();
  void add_item(Item item);
  std::uint32_t depth_of(const Item& item) const {
    return item.origin == kDead ? 1 : sets_[item.origin].depth + 1;
  }
  bool fits(std::uint32_t depth, std::uint32_t height) const {
    return std::uint64_t{depth} + height <= limits_->max_depth;
  }

  // The part of a slice that leaves least to walk; nullptr: all has to be walked.
  const TokenSlice::Part* best_part(ParseSetId set);
  // A place in a rule and within a character of a slice, while it is looked how far the slice
  // reaches. `back`: within a rule that a state called, where that goes on; else kNever.
  struct SlicePlace {
    std::uint32_t state = 0;
    std::int32_t within = 0;
    std::uint32_t back = 0;
    friend bool operator==(const SlicePlace&, const SlicePlace&) = default;
  };
  struct SliceEdge {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint32_t target = 0;
    std::uint32_t back = 0;
  };
  std::span<const SliceEdge> slice_edges(const SlicePlace& place, std::int32_t character_start);
  // How many characters of a slice may follow whatever they are, as an index into its parts plus
  // one.
  std::uint8_t slice_reach(std::uint32_t state, std::size_t slice);
  void walk(ParseSetId set, const TokenTrie& trie, std::span<std::uint32_t> words);
  void walk_all(ParseSetId set, std::span<std::uint32_t> words);
  // Those of a set's items that are open automata's and may be followed by any free bytes.
  std::vector<Item> free_items(ParseSetId set) const;
  // The set of the other items; the same one where none are left out.
  ParseSetId without(ParseSetId set, std::span<const Item> left_out);
  // Calls visit(token, set) for each token that may follow a free item, with the set behind it;
  // kNone where it is of free bytes alone, for which no sets are made.
  template <typename Visit>
  void each_free_token(const Item& item, Visit visit);
  ParseSetId behind_free_bytes(const Item& item, std::string_view bytes, bool are_all);
  void keep_mask(ParseSetId set, std::span<const std::uint32_t> words);
  // One mask has used up what it may use at most.
  bool is_overfull() const { return used() > 2 * limits_->max_cache_bytes; }
  std::size_t used() const { return bytes_ + open_.bytes(); }
  Status overfull() const;

  const RuleAutomata* automata_;
  const GrammarVocabulary* vocabulary_;
  const GrammarLimits* limits_;
  std::mutex mutex_;

  OpenStates open_;
  std::vector<Set> sets_;
  std::vector<Item> pool_;
  std::vector<ParseSetId> rows_;
  std::vector<Mask> masks_;
  std::vector<ParseSetId> table_;  // open addressing, by hash of the kernel; kDead: free
  std::size_t bytes_ = 0;
  Status error_;
  bool has_failed_ = false;  // a set is kept that is not whole

  // By slice, then state: what slice_reach() found, kUnknownReach before.
  static constexpr std::uint8_t kUnknownReach = 255;
  std::vector<std::vector<std::uint8_t>> reach_;

  std::unique_ptr<ParseClosing> closing_;

  // Scratch.
  std::vector<Item> kernel_, closure_;
  std::vector<ParseSetId> path_;
  std::vector<SliceEdge> slice_edges_;
  std::vector<std::uint32_t> item_places_;  // of closure_, by hash; see add_item
};

}  // namespace quire
