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
  std::int32_t priority = 0;
  std::string cache_salt;
  std::string user;
  std::optional<Duration> deadline;
  std::optional<std::int32_t> drafts;                  // GenerateRequest::drafts
  std::optional<std::int64_t> truncate_prompt_tokens;  // keep the last so many; -1: what fits
  std::optional<std::string> request_id;
};

// Reads what completions and chat completions share from `fields`. Sampling values start from the
// engine's defaults. Errors (kInvalidArgument, kUnimplemented) start with the name of the field.
Result<GenerationOptions> read_generation_options(const JsonReader& fields, const Engine& engine);

// `user`: whose requests share, where the policy is fair and no key says it; any text.
Result<std::string> read_user(const JsonReader& fields);

// `cache_salt`: as vLLM has it, any text but an empty one; empty where there is none.
Result<std::string> read_cache_salt(const JsonReader& fields);

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
