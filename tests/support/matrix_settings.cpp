#include "support/matrix_settings.h"

namespace quire::test {
namespace {

// Also in the outputs of others, and several where these go on differently.
constexpr const char* kTrees =
    R"({"method": "suffix", "num_speculative_tokens": 32, "suffix_decoding_max_tree_width": 8,
        "suffix_decoding_max_cached_requests": 100, "suffix_decoding_max_spec_factor": 4})";

// The model is its own draft model.
constexpr const char* kItself = R"({"model": "itself", "num_speculative_tokens": 8})";

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> settings = {
      {.name = "batch"},
      {.name = "batch, block 1", .block_size = 1},
      {.name = "batch, no prefix cache", .prefix_caching = false},
      {.name = "batch, again, block 24", .block_size = 24, .again = true},
      {.name = "batch, chunk 16, deadline", .chunk = 16, .policy = "deadline"},
      {.name = "batch, chunk 1, shortest", .chunk = 1, .policy = "shortest", .joined = true},
      {.name = "batch, preemption, fair", .preempt = true, .policy = "fair"},
      {.name = "batch, preemption, block 1, chunk 16, longest prefix, pinned",
       .block_size = 1,
       .chunk = 16,
       .preempt = true,
       .policy = "longest-prefix",
       .pinned = true,
       .joined = true},
      {.name = "batch, 1 thread, priority", .threads = 1, .policy = "priority", .salted = true},
      {.name = "batch, chunk 24, preemption, pace of admission",
       .chunk = 24,
       .preempt = true,
       .admission = {.waiting_served_ratio = 0.7, .max_waiting_tokens = 6}},
      {.name = "batch, no time for prompts", .max_step_ms = 1e-3},
      {.name = "batch, 5 ms a step, itself drafts", .max_step_ms = 5, .speculation = kItself},
      {.name = "alone, 1 thread, chunk 16",
       .batch = false,
       .chunk = 16,
       .threads = 1,
       .joined = true},
      {.name = "batch, pinned, 2 steps in flight",
       .block_size = 4,
       .chunk = 64,
       .max_steps_in_flight = 2,
       .pinned = true},
      {.name = "batch, preemption, 3 steps in flight",
       .block_size = 4,
       .chunk = 48,
       .preempt = true,
       .max_steps_in_flight = 3,
       .joined = true},
      {.name = "batch, kept weights", .kept_weights = true},
      {.name = "batch, offloaded, preemption, block 4, 2 steps in flight",
       .block_size = 4,
       .chunk = 48,
       .preempt = true,
       .max_steps_in_flight = 2,
       .offload = true},
      {.name = "batch, ngram", .speculation = kNgram},
      {.name = "batch, 5 ngram drafts, chunk 16", .chunk = 16, .speculation = kNgram, .drafts = 5},
      {.name = "alone, 1 ngram draft, 1 thread",
       .batch = false,
       .threads = 1,
       .speculation = kNgram,
       .drafts = 1},
      {.name = "batch, 3 ngram drafts, preemption, block 2",
       .block_size = 2,
       .chunk = 96,
       .preempt = true,
       .speculation = kNgram,
       .drafts = 3},
      {.name = "batch, trees, 2 steps in flight",
       .chunk = 64,
       .max_steps_in_flight = 2,
       .speculation = kTrees},
      {.name = "batch, trees, block 1", .block_size = 1, .speculation = kTrees},
      {.name = "trees of 12 drafts, preemption, block 4, pinned",
       .block_size = 4,
       .chunk = 48,
       .preempt = true,
       .speculation = kTrees,
       .drafts = 12,
       .pinned = true,
       .joined = true},
      {.name = "itself drafts 4, preemption", .preempt = true, .speculation = kItself, .drafts = 4},
      {.name = "alone, trees of 32 drafts", .batch = false, .speculation = kTrees, .drafts = 32},
  };
  return settings;
}

std::vector<Setting> settings_that_draft(const std::string& method) {
  return {{.name = "batch", .max_step_ms = 5, .speculation = method, .joined = true},
          {.name = "batch, 3 drafts, chunk 16",
           .chunk = 16,
           .speculation = method,
           .drafts = 3,
           .joined = true},
          {.name = "batch, again, 8 drafts, block 4",
           .block_size = 4,
           .speculation = method,
           .drafts = 8,
           .again = true},
          {.name = "2 drafts, preemption, block 4, chunk 48",
           .block_size = 4,
           .chunk = 48,
           .preempt = true,
           .speculation = method,
           .drafts = 2,
           .pinned = true},
          {.name = "alone, 5 drafts, block 1, 1 thread",
           .batch = false,
           .block_size = 1,
           .threads = 1,
           .speculation = method,
           .drafts = 5}};
}

}  // namespace quire::test
