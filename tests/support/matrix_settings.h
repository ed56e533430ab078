// The settings of the configuration matrix: none of them may change a token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/batch_former.h"

namespace quire::test {

// How a corpus is run.
struct Setting {
  std::string name;
  bool batch = true;  // all at once, else one after the other
  std::int32_t block_size = 16;
  std::int32_t chunk = 512;  // max_num_batched_tokens
  int threads = 2;
  bool preempt = false;  // a pool that cannot hold all sequences
  bool prefix_caching = true;
  double max_step_ms = 0;          // less than a row takes: prompts wait wherever they may
  std::int64_t shared_tokens = 0;  // that prompts find in the prefix cache at least
  std::int32_t max_steps_in_flight = 1;
  bool kept_weights = false;  // mapped as an engine before this one has packed them
  std::string speculation = "{}";
  bool jump_forward = true;
  std::optional<std::int32_t> drafts = std::nullopt;  // in each step; none: the governor says
  std::string policy = "fcfs";
  AdmissionPace admission = {};
  bool salted = false;  // every other prompt is of another scope of the prefix cache
  bool again = false;   // what is compared are second runs, which find their prompts to the token
  bool offload =
      false;            // what is compared is a second engine's, which reads the first one's blocks
  bool pinned = false;  // the beginning of the first prompt is
  // Has what others have one by one, of all that changes which rows kernels see together: numbers
  // of rows and threads, sizes of blocks, trees.
  bool joined = false;
};

// Guesses at what follows the last token or three.
inline constexpr const char* kNgram =
    R"({"method": "ngram", "num_speculative_tokens": 8,
        "prompt_lookup_min": 1, "prompt_lookup_max": 3})";

const std::vector<Setting>& all_settings();

// Those in which guesses that are computed, by this configuration, meet everything else.
std::vector<Setting> settings_that_draft(const std::string& method);

}  // namespace quire::test
