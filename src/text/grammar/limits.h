// What compiling a grammar and following it may cost. Grammars come from requests, so everything
// that can grow has a limit with a name, and what reaches it is refused by that name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace quire {

struct GrammarLimits {
  std::size_t max_source_bytes = std::size_t{1} << 20;  // of a regex's or a grammar's own text
  int max_source_nesting = 128;                         // groups within groups in it
  std::size_t max_rules = 50'000;
  std::size_t max_expressions = 200'000;
  // Of one automaton, those on the way to it among them; and of all rules together.
  std::size_t max_states = 150'000;
  std::size_t max_edges = 1'500'000;
  // Of the divisors of multipleOf and what they are combined to, of one schema.
  std::size_t max_remainders = 16'000'000;
  // Of the processor, so that what others compute refuses nothing: a compilation that takes longer
  // is given up.
  std::chrono::milliseconds max_compile_time{1800};
  // Rules within rules while text is followed. What would go deeper is masked as if the grammar did
  // not have it; what has been begun can always be ended.
  std::uint32_t max_depth = 1024;
  // Items of one Earley set: how ambiguous a grammar may be at one place of the text.
  std::size_t max_set_items = 20'000;
  // Parse sets and masks kept for all that follow one grammar; what is beyond is computed again.
  std::size_t max_cache_bytes = std::size_t{32} << 20;
};

struct AutomatonWorkspace;

// What is left of a compilation's limits, and what its steps work with. One thread.
class GrammarBudget {
 public:
  explicit GrammarBudget(const GrammarLimits& limits = {}, std::function<bool()> cancelled = {});
  ~GrammarBudget();
  GrammarBudget(const GrammarBudget&) = delete;
  GrammarBudget& operator=(const GrammarBudget&) = delete;

  const GrammarLimits& limits() const { return limits_; }
  AutomatonWorkspace& workspace() { return *workspace_; }

  // kResourceExhausted by the limit's name where an automaton of so many states and edges is too
  // large.
  Status check_size(std::size_t states, std::size_t edges) const {
    const bool fits = states <= limits_.max_states && edges <= limits_.max_edges;
    return fits ? Status() : too_large(states);
  }

  // Takes so many from max_remainders, and so much work: kResourceExhausted by its name.
  Status take_remainders(std::size_t count);

  // Called in every loop that input makes long. Looks at the clock and at `cancelled` once in a
  // while: kResourceExhausted naming max_compile_time, kCancelled.
  Status tick(std::size_t work = 1) {
    pending_ += work;
    return pending_ < kTicksBetweenLooks ? Status() : look();
  }

 private:
  static constexpr std::size_t kTicksBetweenLooks = 4096;

  Status too_large(std::size_t states) const;
  Status look();

  GrammarLimits limits_;
  std::function<bool()> cancelled_;
  std::unique_ptr<AutomatonWorkspace> workspace_;
  Duration deadline_;  // in thread_cpu_time()
  std::size_t pending_ = 0;
  std::size_t remainders_ = 0;  // taken
};

}  // namespace quire
