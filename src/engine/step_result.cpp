#include "engine/step_result.h"

#include <algorithm>

namespace quire {
namespace {

// Of results that wait, where a few of the largest steps would be more.
constexpr std::size_t kMaxQueueBytes = std::size_t{32} << 20;
constexpr std::size_t kQueuedLargestSteps = 4;

template <typename T>
std::size_t capacity_of(const std::vector<T>& list) {
  return list.capacity() * sizeof(T);
}

}  // namespace

std::size_t StepResult::capacity_bytes() const {
  return capacity_of(outputs) + capacity_of(result.sampled) + capacity_of(result.prompt_tokens) +
         capacity_of(result.top_logprobs) + capacity_of(result.pooled) +
         capacity_of(result.hidden_states) + capacity_of(forced);
}

std::size_t StepResultLimits::step_bytes() const {
  const auto seqs = static_cast<std::size_t>(max_num_seqs);
  const auto tokens = static_cast<std::size_t>(max_num_batched_tokens);
  return seqs * (sizeof(RequestStepOutput) + sizeof(SampledToken) + sizeof(PooledState) +
                 sizeof(std::uint8_t)) +
         tokens * sizeof(PromptToken) +
         (seqs + tokens) * static_cast<std::size_t>(max_logprobs) * sizeof(TokenLogprob) +
         std::min(seqs, tokens) * static_cast<std::size_t>(hidden_size) * sizeof(float);
}

std::size_t StepResultLimits::queue_bytes() const {
  return std::min(kMaxQueueBytes, kQueuedLargestSteps * step_bytes());
}

// Two queues' worth, and the step that the engine fills.
std::size_t StepResultLimits::total_bytes() const {
  return 2 * std::max(queue_bytes(), step_bytes()) + step_bytes();
}

}  // namespace quire
