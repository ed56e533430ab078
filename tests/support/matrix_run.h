// A corpus under settings of the configuration matrix: within a level, tokens and log probabilities
// are compared bit for bit with those of its prompts one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sampling_params.h"
#include "support/matrix_settings.h"

namespace quire::test {

struct Corpus {
  std::string model;
  std::vector<std::string> prompts = {};
  std::int64_t max_tokens = 32;
  std::int32_t max_model_len = 160;
  std::string kv_cache_dtype = "auto";
  std::string drafter = {};  // of method "eagle"; where others name a model, it is `model`
  bool everywhere = false;   // every setting on every level
  bool states = false;       // some layers keep a state: as keeps_states() says
  // What is left to the processor by a GPU, or where there is none by a device that is like one.
  std::optional<std::int32_t> n_gpu_layers = {};
  std::int32_t n_cpu_moe = 0;
  // What the text of prompt i must be: element i % size; null, and where there are none: anything.
  std::vector<std::shared_ptr<const StructuredOutputsParams>> constraints = {};
};

// Every setting on the best level of this processor. Scheduling and drafts know no levels: on the
// others it is the joined settings, unless the corpus says otherwise.
void check_matrix(const Corpus& corpus, const std::vector<Setting>& settings);

}  // namespace quire::test
