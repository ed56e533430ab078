// `quire generate --input FILE --output FILE`: many prompts through one engine, one record a line,
// in input order, in bounded memory.
#pragma once

#include <istream>
#include <ostream>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "core/sampling_params.h"
#include "engine/api.h"

namespace quire {

struct BatchSummary {
  std::int64_t num_requests = 0;
  std::int64_t num_errors = 0;  // error records among them
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  double seconds = 0;
};

// Runs every line of `input`. Lines that are no valid request, and requests that the engine
// refuses, become error records. At most `window` lines are in memory. Stops at an interrupt: what
// runs is aborted and written with finish_reason "abort". kIoError if `output` cannot be written.
Result<BatchSummary> run_batch(Engine& engine, std::istream& input, std::ostream& output,
                               const SamplingParams& defaults, bool max_tokens_given,
                               std::int64_t window, const InterruptWatcher& interrupt);

// The token ids of a prompt, and max_tokens up to the end of the context where none was given.
Result<GenerateRequest> prepare_request(const Engine& engine, std::vector<TokenId> prompt,
                                        SamplingParams params, bool max_tokens_given);

}  // namespace quire
