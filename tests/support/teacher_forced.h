// A real model against the reference's greedy text, teacher-forced: each position is scored after
// the reference's own tokens, so that one difference does not lead to others.
#pragma once

#include <cstddef>
#include <string>

#include "base/json.h"
#include "support/score.h"

namespace quire::test {

struct TeacherForcedCase {
  std::string model;
  json::value goldens;  // with `prompts`, as scripts/goldens/common.py's greedy() makes them
  IsaLevel level = IsaLevel::kRef;
  ActivationMode mode = ActivationMode::kFloat32;
  DType kv_dtype = DType::kF32;
  std::int64_t max_tokens = 512;  // of a prompt with its text
  std::size_t num_prompts = 0;    // the first so many
  std::size_t num_positions = 64;
};

// How many of the 40 prompts a level reads: all at the machine's widest, which runs by default; ten
// at those below, and two at the scalar one, which is some hundred times slower.
std::size_t num_prompts_at(IsaLevel level);

// Expects that the best token differs only where the reference's two best logits are within
// `allowed_gap`, and that the mean negative log-likelihood is within `allowed_nll` (relative) of
// the reference's. Prints what it found.
void check_teacher_forced(const TeacherForcedCase& test, double allowed_gap, double allowed_nll);

}  // namespace quire::test
