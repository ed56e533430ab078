// Automata that no input changes, for whoever keeps them. Internal to src/text/grammar.
#pragma once

#include <chrono>

#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace quire {

// What `make(budget)` gives: no request's limit stops it, since none of them has asked for it.
template <typename Make>
Dfa fixed_dfa(const Make& make) {
  GrammarLimits limits;
  limits.max_compile_time = std::chrono::hours(1);
  GrammarBudget budget(limits);
  return make(budget).value();
}

}  // namespace quire
