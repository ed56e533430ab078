#include "text/grammar/limits.h"

#include <utility>

#include <fmt/format.h>

#include "base/cpu_time.h"
#include "text/grammar/automaton_workspace.h"

namespace quire {

GrammarBudget::GrammarBudget(const GrammarLimits& limits, std::function<bool()> cancelled)
    : limits_(limits),
      cancelled_(std::move(cancelled)),
      workspace_(std::make_unique<AutomatonWorkspace>()),
      deadline_(thread_cpu_time() + limits.max_compile_time) {}

GrammarBudget::~GrammarBudget() = default;

Status GrammarBudget::too_large(std::size_t states) const {
  if (states > limits_.max_states) {
    return Status::resource_exhausted(
        fmt::format("the grammar takes more than {} states (limit max_states)", limits_.max_states),
        "use smaller repeat counts, fewer alternatives or fewer exclusions");
  }
  return Status::resource_exhausted(
      fmt::format("the grammar takes more than {} edges (limit max_edges)", limits_.max_edges),
      "use smaller repeat counts, fewer alternatives or fewer exclusions");
}

Status GrammarBudget::take_remainders(std::size_t count) {
  remainders_ += count;
  if (remainders_ <= limits_.max_remainders) return tick(count);
  return Status::resource_exhausted(
      fmt::format("JSON Schema: multipleOf takes more than {} remainders (limit max_remainders)",
                  limits_.max_remainders),
      "use fewer or smaller divisors");
}

Status GrammarBudget::look() {
  pending_ = 0;
  if (cancelled_ && cancelled_()) {
    return {StatusCode::kCancelled, "compiling the grammar was cancelled"};
  }
  if (thread_cpu_time() > deadline_) {
    return Status::resource_exhausted(
        fmt::format(
            "compiling the grammar takes more than {} ms of the processor (limit max_compile_time)",
            limits_.max_compile_time.count()),
        "use a simpler grammar");
  }
  return {};
}

}  // namespace quire
