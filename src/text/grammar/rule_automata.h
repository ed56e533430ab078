// A grammar's rules as automata, ready to be followed. Internal to src/text/grammar.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/limits.h"
#include "text/grammar/open_automaton.h"

namespace quire {

// Rows of any length in one array.
template <typename T>
class Rows {
 public:
  void reserve(std::size_t rows, std::size_t values) {
    begins_.reserve(rows);
    values_.reserve(values);
  }
  void add_row() { begins_.push_back(static_cast<std::uint32_t>(values_.size())); }
  void add(const T& value) { values_.push_back(value); }  // to the latest row
  std::span<const T> operator[](std::size_t row) const {
    const std::size_t end = row + 1 < begins_.size() ? begins_[row + 1] : values_.size();
    return {values_.data() + begins_[row], values_.data() + end};
  }
  std::size_t num_values() const { return values_.size(); }
  const std::vector<T>& values() const { return values_; }  // of all rows

 private:
  std::vector<std::uint32_t> begins_;
  std::vector<T> values_;
};

// States of all rules have numbers of one kind. Each leads to an accepting one of its rule.
struct RuleAutomata {
  static constexpr std::uint32_t kNever = UINT32_MAX;

  struct ByteEdge {
    std::uint8_t first = 0;
    std::uint8_t last = 0;
    std::uint32_t target = 0;
  };
  struct CallEdge {  // a text of `rule`, then on at `target`
    std::uint32_t rule = 0;
    std::uint32_t target = 0;
  };
  struct TokenEdge {
    TokenId token = 0;
    std::uint32_t target = 0;
  };
  struct Rule {
    std::uint32_t start = 0;
    std::uint32_t height = 0;  // rules within rules that its least nested text needs
    bool nullable = false;
  };

  // A rule whose states are made as texts come to them (open_states.h): the start of the one at
  // index i here is num_states() + i.
  struct OpenRule {
    std::uint32_t rule = 0;
    std::shared_ptr<const OpenAutomaton> automaton;
  };

  std::vector<Rule> rules;
  std::uint32_t root = 0;
  std::vector<OpenRule> open;

  Rows<ByteEdge> bytes;    // by state, sorted
  Rows<CallEdge> calls;    // by state
  Rows<TokenEdge> tokens;  // by state
  std::vector<std::uint32_t> rule_of;
  std::vector<std::uint32_t> height;  // as of rules, of what is left from a state on
  std::uint32_t max_height = 0;       // of all states
  std::vector<bool> accepting;

  // Bytes that no edge tells apart are of one class.
  std::array<std::uint8_t, 256> class_of{};
  std::vector<std::uint8_t> class_member;  // a byte of each

  std::size_t num_states() const { return rule_of.size(); }
  // kNever where the byte leads nowhere.
  std::uint32_t next(std::uint32_t state, std::uint8_t byte) const {
    for (const ByteEdge& edge : bytes[state]) {
      if (byte <= edge.last) return byte >= edge.first ? edge.target : kNever;
    }
    return kNever;
  }
};

// Columns of rules' automata behind those of bytes.
inline constexpr std::uint32_t kFirstRuleColumn = 256;
inline constexpr std::uint32_t kFirstTokenColumn = std::uint32_t{1} << 24;

// One automaton for each rule that is left, its columns those of bytes, of rules by their index
// here and of tokens by id.
struct RuleDfas {
  std::vector<std::shared_ptr<const Dfa>> rules;
  std::uint32_t root = 0;
  // Rules that are open automata; a byte stands for them in `rules`.
  std::vector<RuleAutomata::OpenRule> open;
};

// Small rules become part of those that use them, rules that call themselves first or last become
// loops, large regular parts become rules. Errors as of compile_grammar().
Result<RuleDfas> make_rule_dfas(const Grammar& grammar, const GrammarVocabulary& vocabulary,
                                GrammarBudget& budget);

// Leaves out what no text comes through. kInvalidArgument where no text is left.
Result<RuleAutomata> make_rule_automata(const RuleDfas& dfas, GrammarBudget& budget);

}  // namespace quire
