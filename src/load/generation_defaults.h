// The sampling defaults that a model brings: generation_config.json, or keys of its GGUF file.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "core/sampling_params.h"

namespace quire {

class GgufFile;

// vLLM's defaults of SamplingParams, and on top of them what a generation_config.json says under
// the keys of core/sampling_table.h (presence_penalty, frequency_penalty, repetition_penalty,
// temperature, top_k, top_p, min_p and max_new_tokens); temperature 0 where it says `do_sample:
// false`. (End-of-sequence ids are read with the tokenizer.) kBadModel naming file and key for a
// value of another type or out of range.
struct GenerationDefaults {
  SamplingParams params;
  std::vector<std::string> fields;  // SamplingParams' names of those that the file sets
};
Result<GenerationDefaults> read_generation_defaults(const JsonReader& generation_config);

// The same of a GGUF file's general.sampling.temp, top_k, top_p and min_p, where it has them.
Result<GenerationDefaults> read_generation_defaults(const GgufFile& file);

}  // namespace quire
