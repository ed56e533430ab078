// The most that the answer to a request can weigh, from what is asked for, before anything is
// computed: what is over --max-response-bytes is refused with the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "serve/models/served_model.h"
#include "serve/protocols/openai/generation_answer.h"

namespace quire {

// What a request may need while it runs, besides its answer: tokens of all outputs, and copies of
// its parameters.
inline constexpr std::uint64_t kMaxHeldBytes = 256ULL << 20;

enum class AnswerKind : std::uint8_t { kCompletion, kEchoedCompletion, kChat };

// Checks both; `max_tokens` that the request leaves open (job.fits_max_tokens) becomes what fits.
// The answer as a whole is bounded, a stream by what its client may leave unread. kInvalidArgument
// with the numbers and the fields to lower.
Status fit_answer(GenerationJob& job, AnswerKind kind, const ServedModel& served);

// The same for an answer that says of each output token what a chat completion says, in `copies`
// copies. `max_tokens`: as the request has it; nothing: what fits, which is given back.
Result<std::int64_t> fit_response(const SamplingParams& params, const AnswerParsing& parsing,
                                  std::int64_t num_prompt_tokens,
                                  std::optional<std::int64_t> max_tokens, int copies,
                                  const ServedModel& served);

// kInvalidArgument where an answer with `bytes` of numbers or text would be too large. `what`
// begins with the field's name: "input: 2,048 vectors of 4,096 numbers".
Status check_answer_bytes(std::uint64_t bytes, std::string_view what, const ServedModel& served);

}  // namespace quire
