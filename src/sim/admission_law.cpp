#include "sim/admission_law.h"

#include <algorithm>

#include "base/checked.h"

namespace quire {

bool is_acceptable(const Scheduler& scheduler, const AddRequest& request) {
  const SchedulerConfig& config = scheduler.config();
  const std::int64_t num_prompt = std::ssize(request.prompt_token_ids);
  const std::int64_t most = config.max_model_len;
  const bool pooled = request.pooling != Pooling::kNone;
  const std::int64_t longest =
      pooled ? num_prompt : std::min(num_prompt + request.sampling_params->max_tokens, most) - 1;
  const std::int64_t width = request.sampling_params->beam_width;
  const std::int64_t num_outputs = width > 0 ? 1 : request.sampling_params->n;
  std::int64_t num_pages = 0;  // full blocks of a prompt are there once for all beams
  for (const KvGroup& group : config.kv_groups) {
    const std::int64_t of_one =
        group.max_blocks(longest, config.max_tokens_in_flight(), config.block_size);
    const std::int64_t own = ceil_div(longest, config.block_size) - num_prompt / config.block_size;
    num_pages += group.pages_per_block *
                 (of_one + std::max<std::int64_t>(width - 1, 0) * std::min(own, of_one));
  }
  return num_prompt > 0 && num_prompt < most + (pooled ? 1 : 0) && num_pages <= config.num_blocks &&
         width <= std::min(config.max_num_seqs, config.max_num_batched_tokens) &&
         scheduler.stats().num_waiting + num_outputs <= config.max_queued;
}

}  // namespace quire
