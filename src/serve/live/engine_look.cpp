#include "serve/live/engine_look.h"

#include <algorithm>

namespace quire {
namespace {

// Those behind a window are held no more.
std::int32_t num_held(const BlockTable* table) {
  if (table == nullptr) return 0;
  const auto& entries = table->block_ids();
  return static_cast<std::int32_t>(std::ssize(entries) - std::ranges::count(entries, kNullBlock));
}

SequenceLook look_at_request(const Request& request, const KvCacheManager& kv, Instant now) {
  const BlockTable* table = kv.find(request.id());
  const std::optional<WaitCause> wait = request.timeline().current();
  return {.id = request.id(),
          .external_id = request.external_id(),
          .index = request.sample_index(),
          .priority = request.priority(),
          .num_prompt_tokens = request.num_prompt_tokens(),
          .num_cached_tokens = request.num_cached_tokens(),
          .num_computed_tokens = request.num_computed_tokens(),
          .num_tokens = request.num_tokens(),
          .max_num_tokens = request.num_prompt_tokens() + request.max_output_tokens(),
          .num_preemptions = request.num_preemptions(),
          .num_blocks = num_held(table),
          .age = now - request.arrival(),
          .wait = wait,
          .waited = wait ? request.timeline().total(*wait, now) : Duration{}};
}

}  // namespace

EngineLook look_at(const Scheduler& scheduler, Instant now) {
  EngineLook look;
  look.time = now;
  look.max_num_seqs = scheduler.config().max_num_seqs;
  look.max_num_batched_tokens = scheduler.config().max_num_batched_tokens;
  look.stats = scheduler.stats();
  const KvCacheManager& kv = scheduler.kv_cache();
  const auto running = scheduler.running();
  for (const Request* request : running.first(std::min(running.size(), EngineLook::kMaxRunning))) {
    look.running.push_back(look_at_request(*request, kv, now));
  }
  const auto waiting = scheduler.waiting();  // the next one last
  const std::size_t num_waiting = std::min(waiting.size(), EngineLook::kMaxWaiting);
  for (std::size_t i = 0; i < num_waiting; ++i) {
    look.waiting.push_back(look_at_request(*waiting[waiting.size() - 1 - i], kv, now));
  }
  return look;
}

}  // namespace quire
