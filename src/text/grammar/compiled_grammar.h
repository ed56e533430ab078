// A grammar made ready for one vocabulary. Every context-free grammar is followed exactly: a token
// is allowed if and only if some text of the grammar begins with what has been accepted and that
// token's bytes. Ambiguity and recursion of every kind, on the left too, are allowed.
//
// How: each rule is a minimal automaton over bytes and names of rules; texts are followed by
// Earley's algorithm (1970) over these, whose sets are kept once however often they come up, with
// the way from each to the next and its mask. XGrammar (arXiv 2411.15100) and llguidance have shown
// what masks by automata and tries cost.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/limits.h"

namespace quire {

class ParseStore;
struct RuleAutomata;

// Immutable as seen from outside; any number of threads may follow it at the same time. What it
// keeps of earlier calls changes how long calls take and nothing else.
class CompiledGrammar {
 public:
  ~CompiledGrammar();
  CompiledGrammar(const CompiledGrammar&) = delete;
  CompiledGrammar& operator=(const CompiledGrammar&) = delete;

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  const GrammarLimits& limits() const { return limits_; }

  struct Stats {
    std::size_t rules = 0;   // that are left: small ones become part of those that use them
    std::size_t states = 0;  // of all rules
    std::size_t edges = 0;
  };
  Stats stats() const;

 private:
  friend class GrammarMatcher;
  friend Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(
      const Grammar&, std::shared_ptr<const GrammarVocabulary>, const GrammarLimits&,
      std::function<bool()>);

  CompiledGrammar(RuleAutomata automata, std::shared_ptr<const GrammarVocabulary> vocabulary,
                  const GrammarLimits& limits);

  // The store to follow the grammar with; not `full`.
  std::shared_ptr<ParseStore> store(const ParseStore* full) const;

  struct Shared;

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  GrammarLimits limits_;
  std::unique_ptr<Shared> shared_;
};

// kInvalidArgument: no text fits the grammar, or it names a token that the vocabulary does not
// have. kResourceExhausted naming a limit. kCancelled where `cancelled` (asked every few thousand
// steps, may be empty) said so. Any thread.
Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(
    const Grammar& grammar, std::shared_ptr<const GrammarVocabulary> vocabulary,
    const GrammarLimits& limits = {}, std::function<bool()> cancelled = {});

}  // namespace quire
