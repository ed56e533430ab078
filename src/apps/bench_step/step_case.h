// Steps of one shape, run by a real engine: so many sequences that decode, or one chunk of a
// prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/interrupt.h"
#include "engine/api.h"

namespace quire {

struct StepCase {
  enum class Kind : std::uint8_t { kDecode, kPrefill };
  Kind kind = Kind::kDecode;
  std::int64_t size = 1;         // kDecode: sequences; kPrefill: prompt tokens of the one sequence
  std::int64_t context_len = 0;  // kDecode: tokens of each sequence's prompt

  std::int64_t tokens_per_step() const { return size; }
  std::string name() const;  // "decode 8", "prefill 512"
};

struct StepCaseResult {
  StepCase shape;
  EngineInfo info;
  // Consecutive ones, in order. A step lasts from its start to the next one's.
  std::vector<StepId> step_ids;
  std::vector<double> step_s;
  double context_mean = 0;                 // kDecode: known tokens of a sequence, over the steps
  std::unique_ptr<EngineProfile> profile;  // of the whole run; null: was not asked for
};

// Starts an engine for it and measures `num_steps` steps after a few that are not counted. Of
// `args` max_num_seqs and max_queued_requests follow from the case. Greedy, random prompts. Errors:
// the engine's; kInvalidArgument and kConfig with numbers where the case does not fit; kCancelled
// at an interrupt.
Result<StepCaseResult> run_step_case(EngineArgs args, const StepCase& shape, std::int64_t num_steps,
                                     bool profiled, const InterruptWatcher& interrupt);

}  // namespace quire
