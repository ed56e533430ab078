#include "serve/protocols/openai/generation_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "serve/http/gate.h"
#include "serve/protocols/queue_fields.h"
#include "serve/protocols/sampling_fields.h"
#include "serve/protocols/structured_fields.h"

namespace quire {
namespace {

template <typename T>
Status take(Result<std::optional<T>> found, T& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, std::move(found));
  if (value) target = *value;
  return {};
}

Status read_stream_options(const JsonReader& fields, GenerationOptions& options) {
  const json::value* value = fields.find("stream_options");
  if (value == nullptr) return {};
  if (!value->is_object()) return fields.type_error("stream_options", "an object");
  if (!options.stream) {
    return Status::invalid_argument("stream_options: only allowed with \"stream\": true");
  }
  const JsonReader reader(value->get_object(), "stream_options", StatusCode::kInvalidArgument);
  QUIRE_RETURN_IF_ERROR(take(reader.find_bool("include_usage"), options.include_usage));
  QUIRE_RETURN_IF_ERROR(take(reader.find_bool("continuous_usage_stats"), options.continuous_usage));
  return {};
}

// A beam search is asked for by use_beam_search, as vLLM has it, or by beam_width alone. As wide as
// beam_width says, or best_of, which was vLLM's name for that, or n, which is its name now.
Status read_beam_search(const JsonReader& fields, SamplingParams& params) {
  QUIRE_ASSIGN_OR_RETURN(const auto wanted, fields.find_bool("use_beam_search"));
  QUIRE_ASSIGN_OR_RETURN(const auto best_of, fields.find_int("best_of"));
  const bool has_width = fields.contains("beam_width");
  if (wanted && has_width && *wanted != params.is_beam_search()) {
    return Status::invalid_argument(
        fmt::format("use_beam_search: {}, but beam_width is {}", *wanted, params.beam_width),
        "leave one of the two out");
  }
  if (wanted.value_or(false) && !has_width) params.beam_width = best_of.value_or(params.n);
  if (params.is_beam_search() && best_of && *best_of != params.beam_width) {
    return Status::invalid_argument(
        fmt::format("best_of: {}, but beam_width is {}", *best_of, params.beam_width),
        "both are the number of beams: leave one of the two out");
  }
  if (params.is_beam_search()) drop_default_penalties(fields, params);
  return {};
}

}  // namespace

Result<GenerationOptions> read_generation_options(const JsonReader& fields, const Engine& engine) {
  GenerationOptions options;
  options.params = engine.default_sampling_params();
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(fields, options.params));
  QUIRE_RETURN_IF_ERROR(read_constraint_fields(fields, options.params));
  QUIRE_RETURN_IF_ERROR(read_beam_search(fields, options.params));
  options.max_tokens_requested = fields.contains("max_tokens");
  options.max_tokens_given = options.max_tokens_requested ||
                             std::ranges::find(engine.generation_config_fields(), "max_tokens") !=
                                 engine.generation_config_fields().end();
  options.return_prompt_logprobs = fields.contains("prompt_logprobs");
  QUIRE_RETURN_IF_ERROR(take(fields.find_bool("stream"), options.stream));
  QUIRE_RETURN_IF_ERROR(read_stream_options(fields, options));
  QUIRE_RETURN_IF_ERROR(take(fields.find_bool("return_token_ids"), options.return_token_ids));
  QUIRE_RETURN_IF_ERROR(
      take(fields.find_bool("return_sampling_params"), options.return_sampling_params));
  QUIRE_RETURN_IF_ERROR(take(fields.find_bool("return_why"), options.return_why));
  if (options.stream && options.return_prompt_logprobs) {
    return Status::unimplemented("prompt_logprobs: not available with \"stream\": true");
  }
  QUIRE_ASSIGN_OR_RETURN(options.queue, read_queue_fields(fields));
  QUIRE_ASSIGN_OR_RETURN(options.drafts, read_speculation(fields));
  QUIRE_ASSIGN_OR_RETURN(options.truncate_prompt_tokens, fields.find_int("truncate_prompt_tokens"));
  QUIRE_ASSIGN_OR_RETURN(options.request_id, fields.find_string("request_id"));
  if (options.request_id && !valid_request_id(*options.request_id)) {
    return Status::invalid_argument(
        "request_id: expected 1 to 128 letters, digits, and any of . _ : -");
  }
  return options;
}

Result<std::optional<std::int32_t>> read_speculation(const JsonReader& fields) {
  const json::value* const value = fields.find("speculation");
  using Drafts = std::optional<std::int32_t>;
  if (value == nullptr) return Drafts();
  if (value->is_string()) {
    const std::string_view name = value->get_string();
    if (name == "auto") return Drafts();
    if (name == "off") return Drafts(0);
  } else if (value->is_int64() && value->get_int64() >= 0 &&
             value->get_int64() <= SpeculativeConfig::kMaxTokens) {
    return Drafts(static_cast<std::int32_t>(value->get_int64()));
  }
  return Status::invalid_argument(
      fmt::format("speculation: expected \"auto\", \"off\" or a whole number from 0 to {}",
                  SpeculativeConfig::kMaxTokens));
}

json::object sampling_report(const json::object& request, const SamplingParams& params,
                             const Engine& engine) {
  json::object report;
  const auto configured = engine.generation_config_fields();
  for (const SamplingField& field : sampling_fields()) {
    const json::value* given = request.if_contains(field.name);
    const bool from_request = given != nullptr && !given->is_null();
    const bool from_config = std::ranges::find(configured, field.name) != configured.end();
    report[field.name] = {{"value", field.show(params)},
                          {"source", from_request  ? "request"
                                     : from_config ? "generation_config"
                                                   : "default"}};
  }
  return report;
}

Status truncate_prompt(std::vector<TokenId>& prompt, const GenerationOptions& options,
                       std::int64_t max_model_len) {
  if (!options.truncate_prompt_tokens) return {};
  std::int64_t keep = *options.truncate_prompt_tokens;
  if (keep < -1 || keep == 0 || keep > max_model_len) {
    return Status::invalid_argument(fmt::format(
        "truncate_prompt_tokens: {} is not -1 or a number from 1 to {}", keep, max_model_len));
  }
  if (keep == -1) {
    const std::int64_t room = options.max_tokens_given ? options.params.max_tokens : 1;
    keep = std::max<std::int64_t>(1, max_model_len - room);
  }
  if (std::ssize(prompt) > keep) prompt.erase(prompt.begin(), prompt.end() - keep);
  return {};
}

}  // namespace quire
