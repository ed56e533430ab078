#include "sim/admission_law.h"

#include <algorithm>

#include "base/checked.h"

namespace quire {

namespace {

// Of the full blocks of a prompt, what those who go on after them read.
std::int64_t pages_to_pin(const SchedulerConfig& config, std::int64_t num_prompt) {
  const std::int64_t num_blocks = num_prompt / config.block_size;
  std::int64_t num_pages = 0;
  for (const KvGroup& group : config.kv_groups) {
    const std::int64_t first_token = num_blocks * config.block_size - group.window + 1;
    const std::int64_t num_passed =
        group.keeps_all() ? 0 : std::max<std::int64_t>(first_token, 0) / config.block_size;
    num_pages += group.pages_per_block * (num_blocks - num_passed);
  }
  return num_pages;
}

bool may_pin(const Scheduler& scheduler, const AddRequest& request) {
  if (request.pin == 0) return true;
  const SchedulerConfig& config = scheduler.config();
  const std::int64_t num_pages = pages_to_pin(config, std::ssize(request.prompt_token_ids));
  std::int64_t num_pinned = 0;
  for (const PinnedPrefix& pin : scheduler.pinned().all()) num_pinned += pin.num_pages;
  for (const auto requests : {scheduler.running(), scheduler.waiting(), scheduler.fetching()}) {
    for (const Request* other : requests) {
      if (other->pin() != 0) num_pinned += pages_to_pin(config, other->num_prompt_tokens());
    }
  }
  return num_pages > 0 && num_pinned + num_pages <= config.max_pinned_blocks &&
         request.pooling == Pooling::kNone && request.sampling_params->n == 1 &&
         request.sampling_params->beam_width == 0;
}

}  // namespace

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
  return num_prompt > 0 && num_prompt < most + (pooled ? 1 : 0) &&
         num_pages <= config.num_blocks - config.max_pinned_blocks &&
         width <= std::min(config.max_num_seqs, config.max_num_batched_tokens) &&
         scheduler.stats().num_waiting + num_outputs <= config.max_queued &&
         may_pin(scheduler, request);
}

}  // namespace quire
