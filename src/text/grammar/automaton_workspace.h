// What makes automata, with its buffers: hundreds of them are made for one grammar. Internal to
// src/text/grammar.
#pragma once

#include <cstdint>
#include <vector>

#include "text/grammar/determinizer.h"
#include "text/grammar/distinct_states.h"
#include "text/grammar/minimizer.h"

namespace quire {

struct AutomatonWorkspace {
  Determinizer determinizer;
  Minimizer minimizer;
  // For those who build an automaton from its ends on: its states, edges of the one at hand, and
  // what DfaBuilder::finish_minimal() needs.
  DistinctStates states;
  std::vector<DfaEdge> children;
  std::vector<std::int32_t> numbers, order;
};

}  // namespace quire
