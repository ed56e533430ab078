#include "serve/protocols/llamacpp/llamacpp_request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/fill_in_middle.h"

namespace quire {
namespace {

// Fields that a completion request has under the same name and with the same meaning.
constexpr std::array<std::string_view, 13> kShared = {
    "model",      "stream",     "temperature",       "top_p",
    "top_k",      "min_p",      "presence_penalty",  "stop",
    "ignore_eos", "logit_bias", "frequency_penalty", "grammar",
    "json_schema"};

bool is_nothing(const json::value& value, const json::object& /*request*/) {
  return says_nothing(value) || (value.is_number() && value.to_number<double>() == 0.0);
}

FieldTable make_llama_fields() {
  FieldTable table{"POST /completion, /infill", {}};
  const auto add = [&](std::string_view name, FieldEffect effect,
                       bool (*harmless)(const json::value&, const json::object&) = nullptr) {
    table.fields.push_back({name, kOthers, effect, harmless, {}});
  };
  for (const std::string_view name : kShared) add(name, FieldEffect::kWorks);
  for (const char* name : {"prompt", "n_predict", "max_tokens", "repeat_penalty", "seed",
                           "input_prefix", "input_suffix", "input_extra"}) {
    add(name, FieldEffect::kWorks);
  }
  // How it is computed, not what.
  for (const char* name :
       {"cache_prompt", "id_slot", "n_keep", "n_cache_reuse", "t_max_predict_ms", "t_max_prompt_ms",
        "timings_per_token", "response_fields", "return_progress", "repeat_last_n", "n_discard"}) {
    add(name, FieldEffect::kNone);
  }
  for (const char* name :
       {"n_probs", "min_keep", "mirostat", "dynatemp_range", "xtc_probability", "dry_multiplier",
        "lora", "n_indent", "return_tokens", "post_sampling_probs", "image_data", "n_cmpl"}) {
    add(name, FieldEffect::kRefused, is_nothing);
  }
  const auto is_one = [](const json::value& value, const json::object&) {
    return value.is_number() && value.to_number<double>() == 1.0;
  };
  table.fields.push_back({"typical_p", kOthers, FieldEffect::kRefused, is_one, "1"});
  return table;
}

Status copy_shared(const JsonReader& fields, json::object& to) {
  for (const std::string_view name : kShared) {
    if (const json::value* value = fields.find(name)) to[name] = *value;
  }
  if (const json::value* penalty = fields.find("repeat_penalty")) {
    to["repetition_penalty"] = *penalty;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto seed, fields.find_int("seed"));
  if (seed && *seed >= 0) to["seed"] = *seed;  // -1: any
  return {};
}

}  // namespace

const FieldTable& llama_completion_fields() {
  static const FieldTable kTable = make_llama_fields();
  return kTable;
}

const FieldTable& apply_template_fields() {
  static constexpr std::array<std::string_view, 6> kNames = {"messages",
                                                             "documents",
                                                             "chat_template_kwargs",
                                                             "add_generation_prompt",
                                                             "continue_final_message",
                                                             "model"};
  static const FieldTable kTable = plain_fields("POST /apply-template", kNames);
  return kTable;
}

Result<json::object> completion_of_llama(const JsonReader& fields, const Engine& /*engine*/) {
  json::object completion;
  QUIRE_RETURN_IF_ERROR(copy_shared(fields, completion));
  if (const json::value* prompt = fields.find("prompt")) completion["prompt"] = *prompt;
  return completion;
}

Result<json::object> completion_of_infill(const JsonReader& fields, const Engine& engine) {
  json::object completion;
  QUIRE_RETURN_IF_ERROR(copy_shared(fields, completion));
  if (const json::value* extra = fields.find("input_extra");
      extra != nullptr && !says_nothing(*extra)) {
    return Status::unimplemented("input_extra: further files are not supported");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto before, fields.find_string("input_prefix"));
  QUIRE_ASSIGN_OR_RETURN(const auto after, fields.find_string("input_suffix"));
  QUIRE_ASSIGN_OR_RETURN(const auto started, fields.find_string("prompt"));
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      fill_in_middle_prompt(engine, {before.value_or(""), "input_prefix"},
                            {after.value_or(""), "input_suffix"}, {started.value_or(""), "prompt"},
                            /*gone=*/{}));
  completion["prompt"] = json::array(ids.begin(), ids.end());
  return completion;
}

std::variant<GenerationJob, ApiError> parse_llama_request(std::string_view body,
                                                          const Service& service,
                                                          LlamaTranslation translate,
                                                          ClientGone gone) {
  auto parsed = RequestBody::parse(body, llama_completion_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const JsonReader fields = std::get<RequestBody>(parsed).reader();
  const ServedModel& served = service.model();
  auto completion = translate(fields, served.engine());
  if (!completion.ok()) return request_error(completion.status(), served, "prompt");
  const auto most = fields.find_int(fields.contains("n_predict") ? "n_predict" : "max_tokens");
  if (!most.ok()) return request_error(most.status(), served, "n_predict");
  const bool bounded = *most && **most >= 0;
  if (bounded) completion->emplace("max_tokens", std::max<std::int64_t>(1, **most));
  bool echo = false;
  auto job = parse_completion_request(json::serialize(*completion), service, echo, std::move(gone));
  auto* read = std::get_if<GenerationJob>(&job);
  if (read == nullptr) return job;
  if (read->prompts.size() != 1) {
    ApiError error;
    error.message = "prompt: several prompts are not supported here; /v1/completions takes them";
    error.param = "prompt";
    error.code = "unsupported_parameter";
    return error;
  }
  if (!bounded) {
    read->options.params.max_tokens =
        served.engine().info().max_model_len - std::ssize(read->prompts[0].token_ids);
  }
  read->drop_output = bounded && **most == 0;
  read->ignored_fields = std::get<RequestBody>(parsed).ignored_fields();
  return job;
}

}  // namespace quire
