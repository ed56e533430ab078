// What guesses have cost and gained, by the time that steps took.
//
// A step computes B rows, and m more for guesses, of which a are right. It takes t, of which g went
// by before it computed anything, while its guesses were made; after it the drafter computes for c
// (what it reads of the model's states). T(r) is what the step takes with r rows, as the governor
// estimates it from measured steps (engine/step_pacer.h, draft/row_times.h). Then it adds
//
//   draft       g + c
//   verify      t - g, where m > 0
//   draft_rows  (t - g) (1 - T(B) / T(B + m)): of `verify`, what the rows of guesses cost
//   plain       (t - g) T(B) / T(B + m) (1 + a / B): what the same B + a tokens would have taken
//               without guesses, the step without their rows and, for the a tokens, as many such
//               steps more as give them
//   taken       t + c
//
// The speed-up is plain / taken, over all steps that computed a row; steps without guesses count
// for as much as they took, and what is drafted in other steps is taken, too. So it is below 1
// where guesses lost. The time is the measured one in either term, and only the ratio of two T is
// an estimate: what made a step slow beside guesses does not count for or against them. That ratio
// is taken as 1 where it is more. Where a step has prompts, T knows of them, and the further steps
// have none. T(B) is known where a step of B rows or fewer was measured; before, a step with
// guesses is in neither of the two terms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/draft_tree.h"

namespace quire {

// Of an engine since its start. Of one output: its shares of `verify`, by the tokens that a step
// computed for each of its outputs, where there were guesses at its own tokens, and of `draft` and
// `draft_rows`, by its guesses; but `plain` and `taken` as it has seen them, that is of whole
// steps, each of which gives it one token and one more for each of its own guesses that is right
// (1 + a in place of 1 + a / B).
struct SpeculationTimes {
  Duration draft{};
  Duration verify{};
  Duration draft_rows{};  // of `verify`
  Duration plain{};
  Duration taken{};
  std::int64_t num_compared = 0;  // steps with guesses that the last two have

  // nullopt: there was nothing to compare.
  std::optional<double> speedup() const {
    if (num_compared == 0 || taken <= Duration::zero()) return std::nullopt;
    return to_seconds(plain) / to_seconds(taken);
  }
  bool operator==(const SpeculationTimes&) const = default;
};

// Of one output.
struct SpeculationReport {
  std::int64_t num_steps = 0;                              // with guesses at its tokens
  std::int64_t num_accepted = 0;                           // guesses
  std::array<std::int32_t, kMaxTreeDrafts> accepted_at{};  // by place: 0 is the first
  SpeculationTimes times;

  // Tokens that a step with guesses gave, on average (vLLM's mean acceptance length).
  double mean_accepted_length() const {
    if (num_steps == 0) return 1;
    return 1 + static_cast<double>(num_accepted) / static_cast<double>(num_steps);
  }
};

}  // namespace quire
