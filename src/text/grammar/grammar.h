// A grammar as data: rules, which may be recursive in any way, over regular languages of bytes and
// single tokens. Front ends (regular expressions, EBNF, Lark, JSON Schema) make one by a
// GrammarBuilder; compiled_grammar.h turns it into something to follow.
//
//   GrammarBuilder b(budget);
//   const RuleId value = b.add_rule("value");
//   const ExprId list = b.seq({b.literal("["), b.repeat(b.rule(value), 0, {}), b.literal("]")});
//   b.define(value, b.choice({b.literal("x"), list}));
//   Result<Grammar> grammar = b.build(value);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"
#include "text/grammar/open_automaton.h"

namespace quire {

using ExprId = std::uint32_t;
using RuleId = std::uint32_t;

// The first column behind those of bytes, where an automaton has such.
inline constexpr std::uint32_t kFirstPartColumn = 256;

// One node of an expression; the names of its fields by kind.
struct GrammarExpr {
  enum class Kind : std::uint8_t {
    kRegular,     // a text of `index`, a language of Grammar::languages
    kSequence,    // `children` one behind the other; none: the empty text
    kChoice,      // one of `children`; none: nothing matches
    kRepeat,      // children[0] at least `min` times, at most `max` times (kNoMax: any number)
    kRule,        // rule `index`
    kToken,       // the one token `index`, an id, whose text does not count
    kGraph,       // a way from place 0 to place 1 through Grammar::graphs[index]
    kNamedToken,  // the one token whose text as published is Grammar::names[index]
    kOpen,        // a text of Grammar::open[index]
    // A text that leads through Grammar::languages[index], whose column kFirstPartColumn + i is a
    // text of children[i], a rule. All of a rule's body.
    kAutomaton
  };
  static constexpr std::uint32_t kNoMax = UINT32_MAX;

  Kind kind = Kind::kSequence;
  std::uint32_t index = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::vector<ExprId> children = {};
  bool is_regular = true;  // it has no rules and no tokens
  int depth = 1;           // of the tree that it is
};

// A text of `part` leads from one place to another.
struct GrammarEdge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  ExprId part = 0;
};

struct GrammarRule {
  std::string name;  // for messages
  ExprId body = 0;
  bool apart = false;  // never becomes part of those that use it, however small
};

// Immutable. Expressions refer to earlier ones only; rules make the circles.
struct Grammar {
  std::vector<GrammarExpr> exprs;
  std::vector<std::shared_ptr<const Dfa>> languages;
  std::vector<std::shared_ptr<const OpenAutomaton>> open;
  std::vector<std::string> names;
  std::vector<std::vector<GrammarEdge>> graphs;  // kGraph's children are the parts
  std::vector<GrammarRule> rules;
  RuleId root = 0;
};

// Limits that are hit while building are kept and returned by build(), so that building needs no
// check at each call. `budget` outlives the builder.
class GrammarBuilder {
 public:
  explicit GrammarBuilder(GrammarBudget& budget) : budget_(&budget) {}

  ExprId empty() { return seq({}); }
  ExprId nothing() { return choice(std::span<const ExprId>()); }
  ExprId literal(std::string_view bytes);
  ExprId char_class(const CharSet& set);
  ExprId regular(Dfa dfa) { return regular(std::make_shared<const Dfa>(std::move(dfa))); }
  // One that others use too. Not null.
  ExprId regular(std::shared_ptr<const Dfa> dfa);
  // Not null; not within what language_of() is asked for.
  ExprId open(std::shared_ptr<const OpenAutomaton> automaton);
  ExprId seq(std::span<const ExprId> parts);
  ExprId seq(std::initializer_list<ExprId> parts) {
    return seq(std::span<const ExprId>(parts.begin(), parts.size()));
  }
  ExprId choice(std::span<const ExprId> parts);
  ExprId choice(std::initializer_list<ExprId> parts) {
    return choice(std::span<const ExprId>(parts.begin(), parts.size()));
  }
  // `max` nullopt: any number of times.
  ExprId repeat(ExprId part, std::uint32_t min, std::optional<std::uint32_t> max);
  // All ways from place 0 to place 1, for alternatives that go on alike: each part is looked at
  // once.
  ExprId graph(std::vector<GrammarEdge> edges);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId rule(RuleId rule);
  // The token itself and no text; the only way in which a special token can be allowed. By its text
  // as published ("<|im_end|>"), or by its id; whether the vocabulary has it is checked when the
  // grammar is compiled.
  ExprId token(std::string_view name);
  ExprId token(TokenId id);

  // Names are for messages and need not be unique.
  RuleId add_rule(std::string_view name);
  // Once for each rule.
  void define(RuleId rule, ExprId body);
  // What is used so often that it should be one for all uses.
  void define_apart(RuleId rule, ExprId body);
  // By an automaton whose column kFirstPartColumn + i stands for a text of parts[i].
  void define_automaton(RuleId rule, std::shared_ptr<const Dfa> dfa, std::span<const RuleId> parts);

  // The language of an expression without rules and tokens, for the algebra of dfa.h.
  // kInvalidArgument where it has one.
  Result<Dfa> language_of(ExprId expr);

  GrammarBudget& budget() { return *budget_; }

  // The first error that a call had; kInvalidArgument naming a rule without a definition.
  // The builder is empty afterwards.
  Result<Grammar> build(RuleId root);

 private:
  ExprId add(GrammarExpr expr);
  // Its index; nullopt where a limit is hit.
  std::optional<std::uint32_t> add_language(std::shared_ptr<const Dfa> dfa);
  void keep(Status status);

  GrammarBudget* budget_;
  Grammar grammar_;
  std::vector<bool> defined_;
  std::map<std::string, ExprId, std::less<>> literals_;
  std::size_t states_ = 0;  // of the languages
  std::size_t edges_ = 0;
  Status status_;
};

}  // namespace quire
