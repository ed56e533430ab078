// What completions and chat completions have in common: how to sample, how to answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "engine/api.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/queue_fields.h"

namespace quire {

struct GenerationOptions {
  SamplingParams params;
  bool max_tokens_given = false;      // by the request or generation_config.json
  bool max_tokens_requested = false;  // by the request: all of them have to fit
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage
  bool continuous_usage = false;        // and the usage so far in every chunk
  bool return_token_ids = false;        // vLLM's: token ids beside the text
  bool return_sampling_params = false;  // the values in effect, and where each comes from
  bool return_why = false;              // where the time of each output went, in short
  bool return_prompt_logprobs = false;
  QueueFields queue;
  std::optional<std::int32_t> drafts;                  // GenerateRequest::drafts
  std::optional<std::int64_t> truncate_prompt_tokens;  // keep the last so many; -1: what fits
  std::optional<std::string> request_id;
};

// Reads what completions and chat completions share from `fields`. Sampling values start from the
// engine's defaults. Errors (kInvalidArgument, kUnimplemented) start with the name of the field.
Result<GenerationOptions> read_generation_options(const JsonReader& fields, const Engine& engine);

// `speculation`: "off", "auto", or so many guesses a step. The engine says how many it may be.
Result<std::optional<std::int32_t>> read_speculation(const JsonReader& fields);

// {"temperature": {"value": 0.2, "source": "request"}, ...} for every sampling parameter; sources
// are request, generation_config and default.
json::object sampling_report(const json::object& request, const SamplingParams& params,
                             const Engine& engine);

// Cuts a prompt as `truncate_prompt_tokens` says. kInvalidArgument for a number out of range.
Status truncate_prompt(std::vector<TokenId>& prompt, const GenerationOptions& options,
                       std::int64_t max_model_len);

}  // namespace quire
