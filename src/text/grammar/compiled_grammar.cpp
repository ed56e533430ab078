#include "text/grammar/compiled_grammar.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "text/grammar/parse_store.h"
#include "text/grammar/rule_automata.h"

namespace quire {

struct CompiledGrammar::Shared {
  explicit Shared(RuleAutomata made) : automata(std::move(made)) {}

  RuleAutomata automata;
  std::mutex mutex;
  std::shared_ptr<ParseStore> store;
};

CompiledGrammar::CompiledGrammar(RuleAutomata automata,
                                 std::shared_ptr<const GrammarVocabulary> vocabulary,
                                 const GrammarLimits& limits)
    : vocabulary_(std::move(vocabulary)),
      limits_(limits),
      shared_(std::make_unique<Shared>(std::move(automata))) {}

CompiledGrammar::~CompiledGrammar() = default;

std::shared_ptr<ParseStore> CompiledGrammar::store(const ParseStore* full) const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->store == nullptr || shared_->store.get() == full) {
    shared_->store = std::make_shared<ParseStore>(shared_->automata, *vocabulary_, limits_);
  }
  return shared_->store;
}

CompiledGrammar::Stats CompiledGrammar::stats() const {
  const RuleAutomata& automata = shared_->automata;
  return {.rules = automata.rules.size(),
          .states = automata.num_states(),
          .edges = automata.bytes.num_values() + automata.calls.num_values() +
                   automata.tokens.num_values()};
}

Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(
    const Grammar& grammar, std::shared_ptr<const GrammarVocabulary> vocabulary,
    const GrammarLimits& limits, std::function<bool()> cancelled) {
  GrammarBudget budget(limits, std::move(cancelled));
  QUIRE_ASSIGN_OR_RETURN(const RuleDfas dfas, make_rule_dfas(grammar, *vocabulary, budget));
  QUIRE_ASSIGN_OR_RETURN(RuleAutomata automata, make_rule_automata(dfas, budget));
  const std::uint32_t least = automata.rules[automata.root].height + 1;
  if (least > limits.max_depth) {
    return Status::resource_exhausted(
        fmt::format("every text of the grammar nests rules {} deep, more than {} (limit max_depth)",
                    least, limits.max_depth),
        "use a grammar that is less nested");
  }
  return std::shared_ptr<const CompiledGrammar>(
      new CompiledGrammar(std::move(automata), std::move(vocabulary), limits));
}

}  // namespace quire
