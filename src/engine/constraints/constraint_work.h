// What a request's constraint is and costs, as the engine's threads share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/api.h"
#include "engine/constraints/reasoning_budget.h"
#include "text/grammar/compiled_grammar.h"

namespace quire {

// Of all outputs of a request. The engine's thread counts, others read.
struct ConstraintWork {
  double compile_ms = 0;
  bool cached = false;  // compiled for a request before
  bool told_in_prompt = false;
  std::atomic<std::int64_t> num_masks = 0;
  std::atomic<std::int64_t> mask_ns = 0;  // filling them

  ConstraintReport report() const {
    return {.compile_ms = compile_ms,
            .cached = cached,
            .num_masks = num_masks.load(std::memory_order_relaxed),
            .mask_ms = static_cast<double>(mask_ns.load(std::memory_order_relaxed)) * 1e-6,
            .told_in_prompt = told_in_prompt};
  }
};

// A request's constraint as it goes to the engine.
struct RequestConstraint {
  std::shared_ptr<const CompiledGrammar> grammar;  // null: any text
  std::shared_ptr<ConstraintWork> work;
  std::shared_ptr<const ReasoningBudget> reasoning;  // null: it may go on
  // The text comes to its end within so many tokens (ensure_close).
  std::optional<std::int64_t> close_within;
};

}  // namespace quire
