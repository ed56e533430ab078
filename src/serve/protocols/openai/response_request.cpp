#include "serve/protocols/openai/response_request.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "serve/http/gate.h"
#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_input.h"
#include "serve/protocols/openai/schema_in_prompt.h"
#include "serve/protocols/openai/tool_fields.h"
#include "serve/protocols/queue_fields.h"
#include "serve/protocols/sampling_fields.h"
#include "serve/protocols/structured_fields.h"

namespace quire {
namespace {

constexpr std::size_t kMaxMetadata = 16;
constexpr std::size_t kMaxMetadataKey = 64;
constexpr std::size_t kMaxMetadataValue = 512;
constexpr std::string_view kWithLogprobs = "message.output_text.logprobs";

bool is_text(const json::value& value, std::string_view text) {
  return value.is_string() && value.get_string() == text;
}
Result<json::object> read_metadata(const JsonReader& fields) {
  const json::value* value = fields.find("metadata");
  if (value == nullptr) return json::object();
  if (!value->is_object()) return fields.type_error("metadata", "an object");
  const json::object& metadata = value->get_object();
  if (metadata.size() > kMaxMetadata) {
    return Status::invalid_argument(fmt::format("metadata: at most {} pairs are allowed, found {}",
                                                kMaxMetadata, metadata.size()));
  }
  for (const auto& pair : metadata) {
    if (!pair.value().is_string() || pair.key().size() > kMaxMetadataKey ||
        pair.value().get_string().size() > kMaxMetadataValue) {
      return Status::invalid_argument(
          fmt::format("metadata: expected keys of at most {} bytes and strings of at most {}",
                      kMaxMetadataKey, kMaxMetadataValue));
    }
  }
  return metadata;
}

// Whether log probabilities are wanted. The other things that OpenAI can include are parts of tool
// calls, reasoning and images, of which a text has none.
Result<bool> read_include(const JsonReader& fields) {
  static constexpr std::array<std::string_view, 7> kOthers = {
      "file_search_call.results",
      "web_search_call.results",
      "web_search_call.action.sources",
      "message.input_image.image_url",
      "computer_call_output.output.image_url",
      "code_interpreter_call.outputs",
      "reasoning.encrypted_content"};
  const json::value* value = fields.find("include");
  if (value == nullptr) return false;
  if (!value->is_array()) return fields.type_error("include", "an array");
  bool logprobs = false;
  for (const json::value& item : value->get_array()) {
    const std::string_view name = item.is_string() ? std::string_view(item.get_string()) : "";
    if (name == kWithLogprobs) {
      logprobs = true;
    } else if (std::ranges::find(kOthers, name) == kOthers.end()) {
      return Status::invalid_argument(fmt::format("include: {} is nothing that can be included",
                                                  json::serialize(item).substr(0, 80)));
    }
  }
  return logprobs;
}

// What the text must be by text.format, null where it may be any, and the verbosity that is the
// default. `echo` gets the field as a Response object has it.
Result<SharedConstraint> read_text(const JsonReader& fields, json::value& echo) {
  echo = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
  const json::value* value = fields.find("text");
  if (value == nullptr) return SharedConstraint();
  if (!value->is_object()) return fields.type_error("text", "an object");
  const JsonReader text(value->get_object(), "text", StatusCode::kInvalidArgument);
  if (const json::value* verbosity = text.find("verbosity");
      verbosity != nullptr && !is_text(*verbosity, "medium")) {
    return Status::unimplemented("text.verbosity: only \"medium\", the default, is supported");
  }
  const json::value* format = text.find("format");
  if (format == nullptr) return SharedConstraint();
  QUIRE_ASSIGN_OR_RETURN(auto constraint,
                         read_response_format(*format, "text.format", /*flat=*/true));
  echo.get_object()["format"] = *format;
  return constraint;
}

// {"effort", "summary"}: the effort goes to the template; there are no summaries of reasoning,
// which is told as it is.
Status read_reasoning(const JsonReader& fields, std::string_view chat_template,
                      json::object& kwargs, json::object& echo) {
  echo["reasoning"] = nullptr;
  const json::value* value = fields.find("reasoning");
  if (value == nullptr) return {};
  if (!value->is_object()) return fields.type_error("reasoning", "an object");
  const JsonReader reasoning(value->get_object(), "reasoning", StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const auto effort, reasoning.find_string("effort"));
  QUIRE_RETURN_IF_ERROR(read_reasoning_effort(effort, "reasoning.effort", chat_template, kwargs));
  echo["reasoning"] = {{"effort", effort ? json::value(*effort) : json::value()},
                       {"summary", nullptr}};
  return {};
}

Status read_sampling(const JsonReader& fields, const ServedModel& served, ResponseJob& job) {
  const Engine& engine = served.engine();
  json::object given;
  for (const SamplingField& field : sampling_fields()) {
    const RequestField* taken = response_fields().find(field.name);
    if (taken == nullptr || taken->effect != FieldEffect::kWorks) continue;
    if (const json::value* value = fields.find(field.name)) given[field.name] = *value;
  }
  job.params = engine.default_sampling_params();
  QUIRE_RETURN_IF_ERROR(
      read_sampling_fields(JsonReader(given, "request", StatusCode::kInvalidArgument), job.params));
  QUIRE_RETURN_IF_ERROR(read_constraint_fields(fields, job.params));
  QUIRE_ASSIGN_OR_RETURN(auto format, read_text(fields, job.echo["text"]));
  if (format != nullptr && job.params.structured_outputs != nullptr) {
    return Status::invalid_argument(fmt::format("text.format: {} constrains the text already",
                                                job.params.structured_outputs->field),
                                    "give one of them");
  }
  if (format != nullptr) job.params.structured_outputs = std::move(format);
  // As OpenAI's specification has it; a Response object could not say more.
  if (job.params.temperature > 2) {
    return Status::invalid_argument(
        fmt::format("temperature: {} is not a number from 0 to 2", job.params.temperature));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto top, fields.find_int("top_logprobs"));
  if (top && (*top < 0 || *top > served.max_logprobs())) {
    return Status::invalid_argument(fmt::format("top_logprobs: {} is not an integer from 0 to {}",
                                                *top, served.max_logprobs()));
  }
  QUIRE_ASSIGN_OR_RETURN(const bool logprobs, read_include(fields));
  if (logprobs) job.params.logprobs = top.value_or(0);
  job.echo["temperature"] = job.params.temperature;
  job.echo["top_p"] = job.params.top_p;
  job.echo["presence_penalty"] = job.params.presence_penalty;
  job.echo["frequency_penalty"] = job.params.frequency_penalty;
  job.echo["top_logprobs"] = top.value_or(0);
  return {};
}

// The last events of a stream say all of it again, each in its way.
constexpr int kCopiesInStream = 4;

Status read_max_output_tokens(const JsonReader& fields, const ServedModel& served,
                              ResponseJob& job) {
  QUIRE_ASSIGN_OR_RETURN(const auto most, fields.find_int("max_output_tokens"));
  if (most && *most < 1) {
    return Status::invalid_argument(
        fmt::format("max_output_tokens: {} is not an integer >= 1", *most));
  }
  if (most) {
    QUIRE_RETURN_IF_ERROR(
        check_room(*most, "max_output_tokens", std::ssize(job.prompt_token_ids), served.engine()));
  }
  QUIRE_ASSIGN_OR_RETURN(
      job.params.max_tokens,
      fit_response(job.params, job.parsing, std::ssize(job.prompt_token_ids), most,
                   job.stream || job.background ? kCopiesInStream : 1, served));
  job.echo["max_output_tokens"] = most ? json::value(*most) : json::value();
  return {};
}

// Told back with all their fields, as the Open Responses specification wants them.
json::array tools_told(const json::value* tools) {
  if (tools == nullptr || !tools->is_array()) return {};
  json::array told = tools->get_array();
  for (json::value& tool : told) {
    if (!tool.is_object()) continue;
    tool.get_object().emplace("description", nullptr);
    tool.get_object().emplace("parameters", nullptr);
    tool.get_object().emplace("strict", false);
  }
  return told;
}

// Fields that are told back as they came.
Status read_echoed(const JsonReader& fields, ResponseJob& job) {
  json::object& echo = job.echo;
  QUIRE_ASSIGN_OR_RETURN(echo["metadata"], read_metadata(fields));
  const json::value* tool_choice = fields.find("tool_choice");
  echo["tool_choice"] = tool_choice != nullptr ? *tool_choice : json::value("auto");
  echo["tools"] = tools_told(fields.find("tools"));
  QUIRE_ASSIGN_OR_RETURN(const auto parallel, fields.find_bool("parallel_tool_calls"));
  echo["parallel_tool_calls"] = parallel.value_or(true);
  QUIRE_ASSIGN_OR_RETURN(const auto max_calls, fields.find_int("max_tool_calls"));
  echo["max_tool_calls"] = max_calls ? json::value(*max_calls) : json::value();
  echo["truncation"] = "disabled";
  echo["background"] = job.background;
  echo["service_tier"] = "default";
  for (const std::string_view name : {"user", "safety_identifier", "prompt_cache_key"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto text, fields.find_string(name));
    if (text || name != "user") echo[name] = text ? json::value(*text) : json::value();
  }
  QUIRE_RETURN_IF_ERROR(fields.find_string("prompt_cache_retention").status());
  return {};
}

Status read_flags(const JsonReader& fields, ResponseJob& job) {
  QUIRE_ASSIGN_OR_RETURN(const auto stream, fields.find_bool("stream"));
  QUIRE_ASSIGN_OR_RETURN(const auto store, fields.find_bool("store"));
  job.stream = stream.value_or(false);
  job.store = store.value_or(true);
  job.echo["store"] = job.store;
  QUIRE_ASSIGN_OR_RETURN(const auto background, fields.find_bool("background"));
  job.background = background.value_or(false);
  if (job.background && !job.store) {
    return Status::invalid_argument(
        "background: a response in the background has to be stored; leave out store, or set it to "
        "true");
  }
  QUIRE_ASSIGN_OR_RETURN(job.priority, read_priority(fields));
  QUIRE_ASSIGN_OR_RETURN(job.cache_salt, read_cache_salt(fields));
  QUIRE_ASSIGN_OR_RETURN(job.user, read_user(fields));
  QUIRE_ASSIGN_OR_RETURN(job.drafts, read_speculation(fields));
  QUIRE_ASSIGN_OR_RETURN(const auto request_id, fields.find_string("request_id"));
  if (request_id && !valid_request_id(*request_id)) {
    return Status::invalid_argument(
        "request_id: expected 1 to 128 letters, digits, and any of . _ : -");
  }
  job.log_id = request_id.value_or(job.id);
  return {};
}

// The conversation: what the previous response was, then the new input. Instructions go before it,
// and apply to this response alone.
Status read_conversation(const JsonReader& fields, const ServedModel& served,
                         const StoredResponse* previous, ClientGone gone, ResponseJob& job) {
  const Engine& engine = served.engine();
  QUIRE_ASSIGN_OR_RETURN(const ToolFields tools,
                         read_tools(fields, ToolForm::kResponse, engine, served.dialect()));
  if (previous != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(json::value messages, parse_json(previous->messages, "store"));
    job.messages = std::move(messages.get_array());
  }
  QUIRE_ASSIGN_OR_RETURN(ResponseInput input, read_response_input(fields));
  job.input_items = std::move(input.items);
  for (json::value& message : input.messages) job.messages.push_back(std::move(message));
  QUIRE_ASSIGN_OR_RETURN(const auto instructions, fields.find_string("instructions"));
  Conversation conversation;
  if (instructions) {
    conversation.messages.push_back(json::object{{"role", "system"}, {"content", *instructions}});
  }
  conversation.messages.insert(conversation.messages.end(), job.messages.begin(),
                               job.messages.end());
  for (json::value& message : conversation.messages) {
    QUIRE_RETURN_IF_ERROR(prepare_message(message.as_object(), "input", engine.chat_template()));
  }
  QUIRE_RETURN_IF_ERROR(show_schema(fields, engine.chat_template(), job.params, conversation));
  if (!tools.tools.empty()) conversation.tools = tools.tools;
  QUIRE_RETURN_IF_ERROR(
      read_reasoning(fields, engine.chat_template(), conversation.chat_template_kwargs, job.echo));
  QUIRE_ASSIGN_OR_RETURN(
      job.prompt_token_ids,
      engine.encode_chat(conversation, /*add_special_tokens=*/false,
                         prompt_limits(engine, /*room=*/1, "input", std::move(gone))));
  QUIRE_ASSIGN_OR_RETURN(const auto budget, read_thinking_budget(fields));
  QUIRE_ASSIGN_OR_RETURN(job.parsing,
                         hold_answer(tools, budget, served.dialect(), engine.tokenizer(),
                                     job.prompt_token_ids, job.params));
  job.echo["instructions"] = instructions ? json::value(*instructions) : json::value();
  return {};
}

Status read_response_job(const RequestBody& body, const ServedModel& served,
                         const StoredResponse* previous, ClientGone gone, ResponseJob& job) {
  const JsonReader fields = body.reader();
  QUIRE_RETURN_IF_ERROR(read_flags(fields, job));
  QUIRE_RETURN_IF_ERROR(read_echoed(fields, job));
  QUIRE_RETURN_IF_ERROR(read_sampling(fields, served, job));
  QUIRE_RETURN_IF_ERROR(read_conversation(fields, served, previous, std::move(gone), job));
  const EngineInfo& info = served.engine().info();
  QUIRE_RETURN_IF_ERROR(read_max_output_tokens(fields, served, job));
  job.ignored_fields = body.ignored_fields();
  return job.params.validate(info.vocab_size, served.max_logprobs());
}

}  // namespace

std::variant<ResponseJob, ApiError> parse_response_request(std::string_view body,
                                                           const Service& service,
                                                           ResponseStore& store, ClientGone gone) {
  auto parsed = RequestBody::parse(body, response_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<RequestBody>(parsed);
  const auto named = read_model(request, service);
  if (const auto* error = std::get_if<ApiError>(&named)) return *error;
  const auto& model = std::get<RequestedModel>(named);
  const ServedModel& served = *model.served;
  const auto previous_id = request.reader().find_string("previous_response_id");
  if (!previous_id.ok()) {
    return request_error(previous_id.status(), served, "previous_response_id");
  }
  std::shared_ptr<const StoredResponse> previous;
  if (*previous_id) {
    previous = store.find(**previous_id);
    if (previous == nullptr) {
      ApiError error;
      error.message =
          fmt::format("Previous response with id '{}' not found.", (*previous_id)->substr(0, 100));
      error.param = "previous_response_id";
      error.code = "previous_response_not_found";
      return error;
    }
  }
  ResponseJob job;
  job.id = new_id("resp_");
  job.served = model.served;
  job.echo = {{"id", job.id},
              {"object", "response"},
              {"created_at", std::time(nullptr)},
              {"model", model.name},
              {"previous_response_id", *previous_id ? json::value(**previous_id) : json::value()}};
  const Status status = read_response_job(request, served, previous.get(), std::move(gone), job);
  if (!status.ok()) return request_error(status, served, "input");
  return job;
}

}  // namespace quire
