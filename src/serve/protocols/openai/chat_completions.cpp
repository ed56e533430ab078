#include "serve/protocols/openai/chat_completions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "serve/http/field_text.h"
#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/token_report.h"

namespace quire {
namespace {

constexpr std::size_t kMaxMessages = 4096;

// A list of parts as one text; kUnimplemented for an image or a sound.
Result<json::value> join_parts(const json::array& parts, std::size_t message) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = fmt::format("messages[{}].content[{}]", message, i);
    if (!parts[i].is_object()) {
      return Status::invalid_argument(
          fmt::format("{}: expected an object, found {}", where, json_kind_name(parts[i])));
    }
    const JsonReader part(parts[i].get_object(), where, StatusCode::kInvalidArgument);
    QUIRE_ASSIGN_OR_RETURN(const auto type, part.find_string("type"));
    if (!type) return Status::invalid_argument(fmt::format("{}.type: it is missing", where));
    if (*type != "text") {
      return Status::unimplemented(fmt::format(
          "{}.type: \"{}\" is not supported; this model reads text", where, clipped(*type, 40)));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto piece, part.find_string("text"));
    if (!piece) return Status::invalid_argument(fmt::format("{}.text: it is missing", where));
    text += *piece;
  }
  return json::value(std::move(text));
}

Status check_no_calls(const JsonReader& message, std::size_t index) {
  for (const char* name : {"tool_calls", "function_call"}) {
    const json::value* calls = message.find(name);
    if (calls == nullptr || says_nothing(*calls)) continue;
    return Status::unimplemented(
        fmt::format("messages[{}].{}: tool calls are not supported", index, name));
  }
  return {};
}

Result<json::value> read_message(const json::value& value, std::size_t index) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  json::object message = value.get_object();
  const JsonReader reader(message, where, StatusCode::kInvalidArgument);
  const json::value* role = reader.find("role");
  if (role == nullptr || !role->is_string() || role->get_string().empty()) {
    return Status::invalid_argument(fmt::format("{}.role: expected a string", where));
  }
  QUIRE_RETURN_IF_ERROR(check_no_calls(reader, index));
  const json::value* content = reader.find("content");
  if (content == nullptr) {
    if (role->get_string() != "assistant") {
      return Status::invalid_argument(fmt::format("{}.content: it is missing", where));
    }
    message["content"] = "";
  } else if (content->is_array()) {
    QUIRE_ASSIGN_OR_RETURN(json::value joined, join_parts(content->get_array(), index));
    message["content"] = std::move(joined);
  } else if (!content->is_string()) {
    return Status::invalid_argument(
        fmt::format("{}.content: expected a string or a list of parts, found {}", where,
                    json_kind_name(*content)));
  }
  return json::value(std::move(message));
}

// "logprobs" is a switch here and "top_logprobs" the number; a completion's "logprobs" is both.
Result<json::object> as_sampling_fields(const JsonReader& fields, std::int64_t max_logprobs) {
  json::object object = fields.object();
  object.erase("logprobs");
  QUIRE_ASSIGN_OR_RETURN(const auto wanted, fields.find_bool("logprobs"));
  QUIRE_ASSIGN_OR_RETURN(const auto top, fields.find_int("top_logprobs"));
  if (wanted.value_or(false)) {
    if (top && (*top < 0 || *top > max_logprobs)) {
      return Status::invalid_argument(
          fmt::format("top_logprobs: {} is not an integer from 0 to {}", *top, max_logprobs),
          "--max-logprobs sets the limit");
    }
    object["logprobs"] = top.value_or(0);
  } else if (top.value_or(0) != 0) {
    return Status::invalid_argument("top_logprobs: only allowed with \"logprobs\": true");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto most, fields.find_int("max_completion_tokens"));
  if (most) {
    QUIRE_ASSIGN_OR_RETURN(const auto former, fields.find_int("max_tokens"));
    if (former && *former != *most) {
      return Status::invalid_argument(fmt::format(
          "max_tokens: {} contradicts max_completion_tokens, which is {}", *former, *most));
    }
    if (*most < 1) {
      return Status::invalid_argument(
          fmt::format("max_completion_tokens: {} is not an integer >= 1", *most));
    }
    object["max_tokens"] = *most;
  }
  return object;
}

Result<GenerationJob> read_chat(const RequestBody& body, const ServedModel& served,
                                const Engine& engine, std::string& role, ClientGone gone) {
  QUIRE_ASSIGN_OR_RETURN(const json::object sampling,
                         as_sampling_fields(body.reader(), served.max_logprobs()));
  const JsonReader fields(sampling, "request", StatusCode::kInvalidArgument);
  GenerationJob job;
  job.prompt_field = "messages";
  QUIRE_ASSIGN_OR_RETURN(job.options, read_generation_options(fields, engine));
  QUIRE_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(fields));
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const auto echo, fields.find_bool("echo"));
  AnsweredPrompt prompt;
  const EncodeLimits limits = job.options.truncate_prompt_tokens
                                  ? text_limits("messages", std::move(gone))
                                  : prompt_limits(engine, /*room=*/1, "messages", std::move(gone));
  QUIRE_ASSIGN_OR_RETURN(prompt.token_ids,
                         engine.encode_chat(conversation, special.value_or(false), limits));
  QUIRE_RETURN_IF_ERROR(
      truncate_prompt(prompt.token_ids, job.options, engine.info().max_model_len));
  role = "assistant";
  if (!conversation.add_generation_prompt) {
    const json::value& last = conversation.messages.back();
    role = last.at("role").get_string();
    if (echo.value_or(false)) prompt.echo = last.at("content").get_string();
  }
  if (job.options.max_tokens_requested) {
    const bool newer = body.reader().contains("max_completion_tokens");
    QUIRE_RETURN_IF_ERROR(check_room(job.options.params.max_tokens,
                                     newer ? "max_completion_tokens" : "max_tokens",
                                     std::ssize(prompt.token_ids), engine));
  }
  if (!job.options.max_tokens_given) {
    const std::int64_t room = engine.info().max_model_len - std::ssize(prompt.token_ids);
    job.options.params.max_tokens = std::max<std::int64_t>(1, room);
    job.fits_max_tokens = true;
  }
  QUIRE_RETURN_IF_ERROR(
      job.options.params.validate(engine.info().vocab_size, served.max_logprobs()));
  job.prompts.push_back(std::move(prompt));
  QUIRE_RETURN_IF_ERROR(fit_answer(job, AnswerKind::kChat, served));
  if (job.options.return_sampling_params) {
    job.sampling = sampling_report(sampling, job.options.params, engine);
  }
  job.ignored_fields = body.ignored_fields();
  return job;
}

class ChatFormat final : public ChoiceFormat {
 public:
  ChatFormat(const Engine& engine, const GenerationOptions& options, std::string role)
      : tokenizer_(engine.tokenizer()),
        logprobs_(options.params.logprobs.has_value()),
        token_ids_(options.return_token_ids),
        role_(std::move(role)) {}

  std::string_view id_prefix() const override { return "chatcmpl-"; }
  std::string_view object() const override { return "chat.completion"; }
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }

  void append_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                     const AnsweredOutput& output,
                     const std::vector<PositionLogprobs>& /*prompt_logprobs*/) const override {
    fmt::format_to(
        std::back_inserter(out),
        R"({{"index":{},"message":{{"role":{},"content":{},"refusal":null}},"logprobs":)", index,
        json::serialize(json::string_view(role_)),
        json::serialize(json::string_view(prompt.echo + output.text)));
    if (logprobs_) {
      append_chat_logprobs(out, tokenizer_, output.logprobs);
    } else {
      out += "null";
    }
    append_end_of_choice(out, output);
    if (token_ids_) append_token_ids(out, prompt.token_ids, output.token_ids);
    out += '}';
  }

  void append_chunk_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                           const AnsweredOutput& piece) const override {
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"delta":{{)", index);
    if (piece.first) {
      fmt::format_to(std::back_inserter(out), R"("role":{},)",
                     json::serialize(json::string_view(role_)));
    }
    out += R"("content":)";
    out += piece.first && !prompt.echo.empty()
               ? json::serialize(json::string_view(prompt.echo + piece.text))
               : json::serialize(json::string_view(piece.text));
    out += R"(},"logprobs":)";
    if (logprobs_) {
      append_chat_logprobs(out, tokenizer_, piece.logprobs);
    } else {
      out += "null";
    }
    if (piece.finished) {
      append_end_of_choice(out, piece);
    } else {
      out += R"(,"finish_reason":null)";
    }
    if (token_ids_) {
      out += R"(,"token_ids":)";
      out += json::serialize(json::array(piece.token_ids.begin(), piece.token_ids.end()));
    }
    out += '}';
  }

 private:
  const Tokenizer& tokenizer_;
  bool logprobs_;
  bool token_ids_;
  std::string role_;
};

}  // namespace

Result<json::array> read_chat_messages(const JsonReader& fields) {
  const json::value* value = fields.find("messages");
  if (value == nullptr || !value->is_array()) return fields.type_error("messages", "an array");
  const json::array& list = value->get_array();
  if (list.empty() || list.size() > kMaxMessages) {
    return Status::invalid_argument(
        fmt::format("messages: expected 1 to {} messages, found {}", kMaxMessages, list.size()));
  }
  json::array messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(json::value message, read_message(list[i], i));
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<Conversation> read_conversation(const JsonReader& fields) {
  Conversation conversation;
  QUIRE_ASSIGN_OR_RETURN(conversation.messages, read_chat_messages(fields));
  if (const json::value* documents = fields.find("documents")) {
    if (!documents->is_array()) return fields.type_error("documents", "an array");
    conversation.documents = *documents;
  }
  if (const json::value* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return fields.type_error("chat_template_kwargs", "an object");
    QUIRE_RETURN_IF_ERROR(check_chat_template_kwargs(kwargs->get_object()));
    conversation.chat_template_kwargs = kwargs->get_object();
  }
  QUIRE_ASSIGN_OR_RETURN(const auto continues, fields.find_bool("continue_final_message"));
  QUIRE_ASSIGN_OR_RETURN(const auto prompts, fields.find_bool("add_generation_prompt"));
  conversation.continue_final_message = continues.value_or(false);
  conversation.add_generation_prompt = prompts.value_or(!conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    return Status::invalid_argument(
        "continue_final_message: it excludes add_generation_prompt",
        "a prompt ends either within the last message or where a new one begins");
  }
  return conversation;
}

std::variant<GenerationJob, ApiError> parse_chat_request(std::string_view body,
                                                         const Service& service, std::string& role,
                                                         ClientGone gone) {
  auto parsed = RequestBody::parse(body, chat_fields(), service);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<RequestBody>(parsed);
  auto named = read_model(request, service);
  if (auto* error = std::get_if<ApiError>(&named)) return std::move(*error);
  auto& model = std::get<RequestedModel>(named);
  const ServedModel& served = *model.served;
  auto job = read_chat(request, served, served.engine(), role, std::move(gone));
  if (!job.ok()) return request_error(job.status(), served, "messages");
  job->model = std::move(model.name);
  job->served = model.served;
  return *std::move(job);
}

std::vector<Route> chat_completion_routes(Service& service) {
  const auto handle = [&service](std::shared_ptr<Exchange> exchange) {
    std::string role;
    auto job = parse_chat_request(exchange->request().body, service, role,
                                  [exchange = exchange.get()] { return exchange->gone(); });
    if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
    auto& parsed = std::get<GenerationJob>(job);
    auto format =
        std::make_unique<ChatFormat>(parsed.served->engine(), parsed.options, std::move(role));
    answer_generation(std::move(exchange), std::move(parsed), std::move(format));
  };
  std::vector<Route> routes;
  routes.push_back({.method = "POST", .pattern = "/v1/chat/completions", .handler = handle});
  return routes;
}

}  // namespace quire
