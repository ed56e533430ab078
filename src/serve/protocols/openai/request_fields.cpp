#include "serve/protocols/openai/request_fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/protocols/openai/schema_in_prompt.h"
#include "serve/protocols/sampling_fields.h"
#include "serve/protocols/structured_fields.h"

namespace quire {
namespace {

using Harmless = bool (*)(const json::value& value, const json::object& request);

bool asks_nothing(const json::value& value, const json::object& /*request*/) {
  return says_nothing(value);
}

template <typename... Text>
bool is_any_of(const json::value& value, Text... texts) {
  return value.is_string() && ((value.get_string() == texts) || ...);
}

bool is_number_one(const json::value& value, const json::object& /*request*/) {
  return value.is_number() && value.to_number<double>() == 1.0;
}
bool is_number_zero(const json::value& value, const json::object& /*request*/) {
  return says_nothing(value) || (value.is_number() && value.to_number<double>() == 0.0);
}
bool is_true(const json::value& value, const json::object& /*request*/) {
  return value.is_bool() && value.get_bool();
}
bool is_default_tier(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "auto", "default");
}
// An output has one constraint, whichever is asked for; options behind a colon would change what it
// does.
bool is_backend_name(const json::value& value, const json::object& /*request*/) {
  return says_nothing(value) ||
         is_any_of(value, "auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer");
}
bool is_no_tool_choice(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "none", "auto");
}
// Functions that the request itself forbids to call.
bool are_functions_not_called(const json::value& value, const json::object& request) {
  const json::value* choice = request.if_contains("function_call");
  return says_nothing(value) ||
         (value.is_array() && choice != nullptr && is_any_of(*choice, "none"));
}
bool is_text_only(const json::value& value, const json::object& /*request*/) {
  return value.is_array() && std::ranges::all_of(value.get_array(), [](const json::value& item) {
           return is_any_of(item, "text");
         });
}
bool is_medium(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "medium");
}
bool is_float32(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "float32");
}
bool is_little(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "little", "native");
}
bool is_left(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "left");
}
bool is_never_truncated(const json::value& value, const json::object& /*request*/) {
  return is_any_of(value, "disabled", "auto");
}
// {"include_obfuscation": false} asks for nothing.
bool is_no_option(const json::value& value, const json::object& /*request*/) {
  return value.is_object() && std::ranges::all_of(value.get_object(), [](const auto& field) {
           return says_nothing(field.value());
         });
}

// The feature is missing.
RequestField missing(std::string_view name, FieldOrigin origin, Harmless harmless = asks_nothing) {
  return {name, origin, FieldEffect::kRefused, harmless, {}};
}
// The feature is there; other values than those that `values` names are refused.
RequestField limited(std::string_view name, FieldOrigin origin, Harmless harmless,
                     std::string_view values) {
  return {name, origin, FieldEffect::kRefused, harmless, values};
}
RequestField works(std::string_view name, FieldOrigin origin = kBoth, std::string_view note = {}) {
  return {name, origin, FieldEffect::kWorks, nullptr, note};
}
RequestField no_effect(std::string_view name, FieldOrigin origin = kBoth,
                       std::string_view note = {}) {
  return {name, origin, FieldEffect::kNone, nullptr, note};
}

void append(std::vector<RequestField>& to, const std::vector<RequestField>& fields) {
  to.insert(to.end(), fields.begin(), fields.end());
}

std::vector<RequestField> sampling() {
  static constexpr std::array<std::string_view, 10> kOfOpenAi = {
      "n",    "presence_penalty", "frequency_penalty", "temperature", "top_p", "seed",
      "stop", "max_tokens",       "logprobs",          "logit_bias"};
  std::vector<RequestField> fields;
  for (const SamplingField& field : sampling_fields()) {
    const bool of_both = std::ranges::find(kOfOpenAi, field.name) != kOfOpenAi.end();
    const bool own = field.name == "ensure_close" || field.name == "return_forced_tokens" ||
                     field.name == "beam_width";
    fields.push_back(works(field.name, of_both ? kBoth : own ? kOwn : kVllm));
  }
  return fields;
}

// What the text must be, in the words of each.
std::vector<RequestField> constraints() {
  std::vector<RequestField> fields = {works("response_format")};
  for (const std::string_view name : constraint_field_names()) {
    fields.push_back(works(name, name.starts_with("guided_") ? kVllm : kOthers));
  }
  return fields;
}

// Who calls and what for; says nothing about the answer.
std::vector<RequestField> labels() {
  return {works("user", kBoth, "whose share it uses, with --scheduling-policy fair"),
          no_effect("metadata"), no_effect("safety_identifier"), no_effect("prompt_cache_key"),
          no_effect("prompt_cache_retention")};
}

// What would constrain, reshape or sample an answer in ways that are not there.
std::vector<RequestField> missing_of_generation() {
  return {
      limited("guided_decoding_backend", kVllm, is_backend_name, "names of backends"),
      missing("grammar_lazy", kOthers),
      works("cache_salt", kVllm),
      missing("logits_processors", kVllm),
      missing("logprob_token_ids", kVllm),
      missing("return_tokens_as_token_ids", kVllm),
      limited("truncation_side", kVllm, is_left, "\"left\""),
      limited("spaces_between_special_tokens", kVllm, is_true, "true"),
      missing("prompt_embeds", kVllm),
      missing("kv_transfer_params", kVllm),
      missing("mm_processor_kwargs", kVllm),
      missing("repetition_detection", kVllm),
      missing("vllm_xargs", kVllm),
      limited("service_tier", kBoth, is_default_tier, R"("auto" and "default")"),
      // Samplers.
      missing("mirostat", kOthers, is_number_zero),
      limited("typical_p", kOthers, is_number_one, "1"),
      limited("tfs_z", kOthers, is_number_one, "1"),
      limited("repeat_penalty", kOthers, is_number_one, "1; repetition_penalty is its name here"),
      missing("dynatemp_range", kOthers, is_number_zero),
      missing("dry_multiplier", kOthers, is_number_zero),
      missing("xtc_probability", kOthers, is_number_zero),
      missing("samplers", kOthers),
      missing("custom_logit_processor", kOthers),
      missing("lora", kOthers),
      missing("lora_path", kOthers),
  };
}

// What completions and chat completions share.
std::vector<RequestField> generation(FieldOrigin max_tokens_origin) {
  std::vector<RequestField> fields = {
      works("model"),
      works("stream"),
      works("stream_options"),
      works("truncate_prompt_tokens", kVllm),
      works("priority", kVllm),
      works("deadline_ms", kOwn, "until the answer begins, with --scheduling-policy deadline"),
      works("request_id", kVllm),
      works("return_token_ids", kVllm),
      works("return_sampling_params", kOwn),
      works("return_why", kOwn),
      works("speculation", kOwn, R"("auto", "off", or how many tokens to guess a step)"),
      works("use_beam_search", kVllm, "with `n` beams, unless `beam_width` says another number"),
  };
  append(fields, sampling());
  for (RequestField& field : fields) {
    if (field.name == "max_tokens") field.origin = max_tokens_origin;
  }
  append(fields, constraints());
  append(fields, labels());
  append(fields, missing_of_generation());
  return fields;
}

FieldTable make_completion_fields() {
  FieldTable table{"POST /v1/completions", {works("prompt"), works("echo")}};
  append(table.fields, generation(kBoth));
  append(
      table.fields,
      {works("add_special_tokens", kVllm),
       works("best_of", kOpenAi, "the beams of a beam search; else only the value of `n`"),
       no_effect("store"), works("suffix", kBoth, "models with tokens for filling in the middle"),
       missing("thinking_token_budget", kVllm), missing(kSchemaInPromptField, kOwn)});
  return table;
}

FieldTable make_chat_fields() {
  FieldTable table{"POST /v1/chat/completions",
                   {works("messages"), works("max_completion_tokens"), works("top_logprobs")}};
  append(table.fields, generation(kBoth));
  append(table.fields,
         {
             works("documents", kVllm),
             works("chat_template_kwargs", kVllm),
             works("add_generation_prompt", kVllm),
             works("continue_final_message", kVllm),
             works("add_special_tokens", kVllm),
             works("echo", kVllm),
             works("tools", kBoth, "functions"),
             works("parallel_tool_calls"),
             works("reasoning_effort", kBoth, "where the model's chat template knows it"),
             works(kSchemaInPromptField, kOwn, "what constrains the text is said to the model too"),
             works("include_reasoning", kVllm),
             no_effect("store"),
             no_effect("prediction", kOpenAi,
                       "a hint about speed; --speculative-config guesses without it"),
             works("tool_choice"),
             works("thinking_token_budget", kVllm, "models that reason"),
             limited("functions", kOpenAi, are_functions_not_called,
                     "`[]`, and any with `function_call: \"none\"`"),
             limited("function_call", kOpenAi, is_no_tool_choice, R"("none" and "auto")"),
             limited("modalities", kOpenAi, is_text_only, R"(["text"])"),
             limited("verbosity", kOpenAi, is_medium, "\"medium\""),
             missing("audio", kOpenAi),
             missing("web_search_options", kOpenAi),
             missing("moderation", kOpenAi),
             missing("chat_template", kVllm),
             missing("media_io_kwargs", kVllm),
         });
  return table;
}

FieldTable make_response_fields() {
  // Those that Responses have under another name, or not at all.
  static constexpr std::array<std::string_view, 11> kNotOfResponses = {"n",
                                                                       "include_stop_str_in_output",
                                                                       "max_tokens",
                                                                       "prompt_logprobs",
                                                                       "logprobs",
                                                                       "skip_special_tokens",
                                                                       "allowed_token_ids",
                                                                       "return_forced_tokens",
                                                                       "beam_width",
                                                                       "length_penalty",
                                                                       "early_stopping"};
  FieldTable table{
      "POST /v1/responses",
      {works("model"), works("input"), works("instructions"), works("previous_response_id"),
       works("max_output_tokens"), works("top_logprobs"), works("include"), works("stream"),
       works("store"), works("background"), works("metadata"), works("text"),
       works("tools", kBoth, "functions"), works("priority", kVllm), works("request_id", kVllm),
       works("speculation", kOwn, R"("auto", "off", or how many tokens to guess a step)")}};
  for (const RequestField& field : sampling()) {
    if (std::ranges::find(kNotOfResponses, field.name) == kNotOfResponses.end()) {
      table.fields.push_back(field);
    }
  }
  for (const RequestField& field : labels()) {
    if (field.name != "metadata") table.fields.push_back(field);
  }
  // Theirs is text.format.
  for (RequestField field : constraints()) {
    if (field.name == "response_format") field.origin = kOthers;
    table.fields.push_back(field);
  }
  append(table.fields,
         {
             works("parallel_tool_calls"),
             no_effect("max_tool_calls", kBoth, "it is about tools of the server, which has none"),
             works("reasoning", kBoth, "`effort`, where the model's chat template knows it"),
             limited("truncation", kBoth, is_never_truncated,
                     R"("disabled" and "auto"; an input that does not fit is refused)"),
             works("tool_choice"),
             works("thinking_token_budget", kVllm, "models that reason"),
             works(kSchemaInPromptField, kOwn, "what constrains the text is said to the model too"),
             limited("stream_options", kBoth, is_no_option, R"({"include_obfuscation": false})"),
             missing("conversation", kOpenAi),
             missing("context_management", kOpenAi),
             missing("moderation", kOpenAi),
             missing("prompt", kOpenAi),
             missing("prompt_cache_options", kOpenAi),
             // Of chat completions; here they have other names or none.
             missing("messages", kOthers),
             missing("max_tokens", kOthers),
             missing("max_completion_tokens", kOthers),
             limited("n", kOthers, is_number_one, "1"),
             // A response is one output, and streams.
             missing("use_beam_search", kVllm),
             missing("beam_width", kOwn, is_number_zero),
             limited("length_penalty", kVllm, is_number_one, "1"),
             missing("early_stopping", kVllm),
             missing("return_forced_tokens", kOwn),
             missing("logprobs", kOthers),
             missing("functions", kOthers),
             missing("function_call", kOthers),
             missing("modalities", kOthers),
             no_effect("reasoning_effort", kOthers, "models without reasoning have no effort"),
         });
  append(table.fields, missing_of_generation());
  return table;
}

FieldTable make_embedding_fields() {
  return {"POST /v1/embeddings",
          {
              works("input"),
              works("model"),
              works("encoding_format"),
              works("dimensions"),
              works("normalize", kVllm),
              works("truncate_prompt_tokens", kVllm),
              works("add_special_tokens", kVllm),
              works("priority", kVllm),
              works("request_id", kVllm),
              works("user", kBoth, "whose share it uses, with --scheduling-policy fair"),
              no_effect("metadata", kOthers),
              limited("truncation_side", kVllm, is_left, "\"left\""),
              limited("embed_dtype", kVllm, is_float32, "\"float32\""),
              limited("endianness", kVllm, is_little, R"("little" and "native")"),
              missing("messages", kVllm),
              missing("chat_template", kVllm),
              missing("chat_template_kwargs", kVllm),
              missing("mm_processor_kwargs", kVllm),
              works("cache_salt", kVllm),
              missing("use_activation", kVllm),
              missing("task", kOthers),
              missing("input_type", kOthers),
          }};
}

FieldTable make_tokenize_fields() {
  return {"POST /tokenize",
          {works("prompt", kVllm), works("model", kVllm), works("add_special_tokens", kVllm),
           works("return_token_strs", kVllm), works("messages", kVllm), works("documents", kVllm),
           works("chat_template_kwargs", kVllm), works("add_generation_prompt", kVllm),
           works("continue_final_message", kVllm), missing("tools", kVllm),
           missing("chat_template", kVllm), missing("mm_processor_kwargs", kVllm)}};
}

}  // namespace

const RequestField* FieldTable::find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &RequestField::name);
  return found == fields.end() ? nullptr : &*found;
}

const FieldTable& completion_fields() {
  static const FieldTable kTable = make_completion_fields();
  return kTable;
}
const FieldTable& chat_fields() {
  static const FieldTable kTable = make_chat_fields();
  return kTable;
}
const FieldTable& response_fields() {
  static const FieldTable kTable = make_response_fields();
  return kTable;
}
const FieldTable& embedding_fields() {
  static const FieldTable kTable = make_embedding_fields();
  return kTable;
}
const FieldTable& tokenize_fields() {
  static const FieldTable kTable = make_tokenize_fields();
  return kTable;
}
const FieldTable& detokenize_fields() {
  static const FieldTable kTable{"POST /detokenize",
                                 {works("tokens", kVllm), works("model", kVllm)}};
  return kTable;
}

std::vector<const FieldTable*> request_field_tables() {
  return {&completion_fields(), &chat_fields(),     &response_fields(),
          &embedding_fields(),  &tokenize_fields(), &detokenize_fields()};
}

FieldTable plain_fields(std::string_view route, std::span<const std::string_view> names) {
  FieldTable table{std::string(route), {}};
  for (const std::string_view name : names) table.fields.push_back(works(name, kOwn));
  return table;
}

bool says_nothing(const json::value& value) {
  return value.is_null() || (value.is_bool() && !value.get_bool()) ||
         (value.is_string() && value.get_string().empty()) ||
         (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty());
}

}  // namespace quire
