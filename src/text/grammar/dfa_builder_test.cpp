// Minimization, against what the definition of equal states says of random automata.
#include "text/grammar/dfa_builder.h"

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr std::size_t kLetters = 3;

// Of the first letters; targets by letter, Dfa::kDead for none.
struct Automaton {
  std::vector<std::array<std::int32_t, kLetters>> next;
  std::vector<bool> accepting;

  std::size_t size() const { return accepting.size(); }
};

class RandomAutomata {
 public:
  explicit RandomAutomata(unsigned seed) : engine_(seed) {}

  // Of up to twelve states, all of which can be reached.
  Automaton make() {
    Automaton made;
    const std::size_t size = 1 + below(12);
    const std::size_t dead_of_four = below(4);
    for (std::size_t state = 0; state < size; ++state) {
      made.accepting.push_back(below(4) == 0);
      auto& edges = made.next.emplace_back();
      for (std::int32_t& target : edges) {
        target = below(4) < dead_of_four ? Dfa::kDead : static_cast<std::int32_t>(below(size));
      }
    }
    return reachable(made);
  }

  // The same language: of each state some copies, and edges to any copy.
  Automaton with_copies(const Automaton& of) {
    const std::size_t copies = 1 + below(4);
    Automaton made;
    for (std::size_t copy = 0; copy < copies; ++copy) {
      for (std::size_t state = 0; state < of.size(); ++state) {
        made.accepting.push_back(of.accepting[state]);
        auto& edges = made.next.emplace_back(of.next[state]);
        for (std::int32_t& target : edges) {
          if (target != Dfa::kDead) target += static_cast<std::int32_t>(below(copies) * of.size());
        }
      }
    }
    return reachable(made);
  }

 private:
  static Automaton reachable(const Automaton& all) {
    std::vector<std::int32_t> number(all.size(), Dfa::kDead);
    std::vector<std::int32_t> order = {0};
    number[0] = 0;
    Automaton made;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto state = static_cast<std::size_t>(order[i]);
      made.accepting.push_back(all.accepting[state]);
      auto& edges = made.next.emplace_back(all.next[state]);
      for (std::int32_t& target : edges) {
        if (target == Dfa::kDead) continue;
        std::int32_t& its = number[static_cast<std::size_t>(target)];
        if (its == Dfa::kDead) {
          its = static_cast<std::int32_t>(order.size());
          order.push_back(target);
        }
        target = its;
      }
    }
    return made;
  }
  std::size_t below(std::size_t bound) { return engine_() % bound; }

  std::mt19937 engine_;
};

Dfa minimal(const Automaton& automaton) {
  DfaBuilder builder;
  for (std::size_t state = 0; state < automaton.size(); ++state) {
    builder.add_state(automaton.accepting[state]);
    for (std::uint32_t letter = 0; letter < kLetters; ++letter) {
      builder.add_edge(letter, letter, automaton.next[state][letter]);
    }
  }
  GrammarBudget budget;
  return builder.finish(budget).value();
}

// The states that a text tells apart from each other and from one that leads nowhere.
std::size_t count_distinct(const Automaton& automaton) {
  const std::size_t dead = automaton.size();
  std::vector<std::vector<bool>> differ(dead + 1, std::vector<bool>(dead + 1));
  const auto target = [&](std::size_t state, std::size_t letter) {
    const bool none = state == dead || automaton.next[state][letter] == Dfa::kDead;
    return none ? dead : static_cast<std::size_t>(automaton.next[state][letter]);
  };
  for (bool again = true; std::exchange(again, false);) {
    for (std::size_t a = 0; a <= dead; ++a) {
      for (std::size_t b = 0; b <= dead; ++b) {
        if (differ[a][b]) continue;
        bool apart = (a != dead && automaton.accepting[a]) != (b != dead && automaton.accepting[b]);
        for (std::size_t letter = 0; letter < kLetters; ++letter) {
          if (differ[target(a, letter)][target(b, letter)]) apart = true;
        }
        if (apart) differ[a][b] = again = true;
      }
    }
  }
  std::size_t count = 0;
  for (std::size_t state = 0; state < dead; ++state) {
    bool is_new = differ[state][dead];
    for (std::size_t before = 0; before < state; ++before) {
      if (!differ[state][before]) is_new = false;
    }
    if (is_new) ++count;
  }
  return count;
}

bool accepts(const Automaton& automaton, std::string_view text) {
  std::int32_t state = 0;
  for (const char letter : text) {
    state = automaton.next[static_cast<std::size_t>(state)][static_cast<std::size_t>(letter)];
    if (state == Dfa::kDead) return false;
  }
  return automaton.accepting[static_cast<std::size_t>(state)];
}

TEST(DfaBuilder, MergesWhatNoTextTellsApart) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomAutomata random(seed);
    const Automaton automaton = random.make();
    const Dfa dfa = minimal(automaton);
    // A language that no text is of has no states, not even a start.
    ASSERT_EQ(dfa.num_states(), count_distinct(automaton)) << "seed " << seed;
    std::mt19937 texts(seed);
    for (int i = 0; i < 30; ++i) {
      std::string text;
      for (std::size_t size = texts() % 9; size > 0; --size) {
        text += static_cast<char>(texts() % kLetters);
      }
      ASSERT_EQ(dfa.matches(text), accepts(automaton, text)) << "seed " << seed;
    }
  }
}

TEST(DfaBuilder, FindsCirclesAgainThatAreKnown) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomAutomata random(seed);
    const Automaton automaton = random.make();
    ASSERT_EQ(minimal(random.with_copies(automaton)), minimal(automaton)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
