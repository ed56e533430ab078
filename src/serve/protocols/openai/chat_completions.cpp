#include "serve/protocols/openai/chat_completions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/schema_in_prompt.h"
#include "serve/protocols/openai/token_report.h"
#include "serve/protocols/openai/tool_fields.h"

namespace quire {
namespace {

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
  QUIRE_ASSIGN_OR_RETURN(const ToolFields tools,
                         read_tools(fields, ToolForm::kChat, engine, served.dialect()));
  QUIRE_ASSIGN_OR_RETURN(Conversation conversation, read_conversation(fields, engine));
  if (!tools.tools.empty()) conversation.tools = tools.tools;
  QUIRE_ASSIGN_OR_RETURN(const auto effort, fields.find_string("reasoning_effort"));
  QUIRE_RETURN_IF_ERROR(read_reasoning_effort(effort, "reasoning_effort", engine.chat_template(),
                                              conversation.chat_template_kwargs));
  QUIRE_ASSIGN_OR_RETURN(const auto include_reasoning, fields.find_bool("include_reasoning"));
  QUIRE_ASSIGN_OR_RETURN(const auto budget, read_thinking_budget(fields));
  QUIRE_ASSIGN_OR_RETURN(const auto special, fields.find_bool("add_special_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const auto echo, fields.find_bool("echo"));
  QUIRE_RETURN_IF_ERROR(
      show_schema(fields, engine.chat_template(), job.options.params, conversation));
  AnsweredPrompt prompt;
  const EncodeLimits limits = job.options.truncate_prompt_tokens
                                  ? text_limits("messages", std::move(gone))
                                  : prompt_limits(engine, /*room=*/1, "messages", std::move(gone));
  QUIRE_ASSIGN_OR_RETURN(prompt.token_ids,
                         engine.encode_chat(conversation, special.value_or(false), limits));
  QUIRE_RETURN_IF_ERROR(
      truncate_prompt(prompt.token_ids, job.options, engine.info().max_model_len));
  QUIRE_ASSIGN_OR_RETURN(prompt.parsing,
                         hold_answer(tools, budget, served.dialect(), engine.tokenizer(),
                                     prompt.token_ids, job.options.params));
  prompt.parsing.include_reasoning = include_reasoning.value_or(true);
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
        forced_tokens_(options.params.return_forced_tokens),
        role_(std::move(role)) {}

  bool choices_tell_of_prompts() const override { return false; }
  std::string_view id_prefix() const override { return "chatcmpl-"; }
  std::string_view object() const override { return "chat.completion"; }
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }

  void append_choice(std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
                     const AnsweredOutput& output,
                     const std::vector<PositionLogprobs>& /*prompt_logprobs*/) const override {
    fmt::format_to(std::back_inserter(out),
                   R"({{"index":{},"message":{{"role":{},"content":{},"refusal":null)", index,
                   json::serialize(json::string_view(role_)),
                   content_of(prompt.echo + output.text, !output.calls.empty()));
    append_reasoning(out, output.reasoning);
    if (!output.calls.empty()) {
      out += R"(,"tool_calls":[)";
      for (const AnsweredCall& call : output.calls) append_call(out, call, /*of_chunk=*/false);
      out.back() = ']';
    }
    out += R"(},"logprobs":)";
    if (logprobs_) {
      append_chat_logprobs(out, tokenizer_, output.logprobs);
    } else {
      out += "null";
    }
    append_end_of_choice(out, output);
    if (token_ids_) append_token_ids(out, "token_ids", output.token_ids);
    if (forced_tokens_) append_forced_tokens(out, output.forced_tokens);
    out += '}';
  }

  void append_chunk_choice(
      std::string& out, const AnsweredPrompt& prompt, std::int64_t index,
      const AnsweredOutput& piece,
      const std::vector<PositionLogprobs>& /*prompt_logprobs*/) const override {
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"delta":{{)", index);
    if (piece.first) {
      fmt::format_to(std::back_inserter(out), R"("role":{},)",
                     json::serialize(json::string_view(role_)));
    }
    const bool echoes = piece.first && !prompt.echo.empty();
    const bool elsewhere = !piece.calls.empty() || !piece.reasoning.empty();
    out += R"("content":)";
    out += content_of(echoes ? prompt.echo + piece.text : piece.text, elsewhere);
    append_reasoning(out, piece.reasoning);
    if (!piece.calls.empty()) {
      out += R"(,"tool_calls":[)";
      for (const AnsweredCall& call : piece.calls) append_call(out, call, /*of_chunk=*/true);
      out.back() = ']';
    }
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
    if (token_ids_) append_token_ids(out, "token_ids", piece.token_ids);
    if (forced_tokens_) append_forced_tokens(out, piece.forced_tokens);
    out += '}';
  }

 private:
  // Null where there is none and the message says something else.
  static std::string content_of(std::string_view text, bool elsewhere) {
    return text.empty() && elsewhere ? "null" : json::serialize(json::string_view(text));
  }

  // Under vLLM's name of today and the one that clients know from before.
  static void append_reasoning(std::string& out, std::string_view reasoning) {
    if (reasoning.empty()) return;
    const std::string text = json::serialize(json::string_view(reasoning));
    fmt::format_to(std::back_inserter(out), R"(,"reasoning":{},"reasoning_content":{})", text,
                   text);
  }

  // An element of "tool_calls", with a comma behind it. A chunk's has an index, and names its call
  // only where it begins.
  static void append_call(std::string& out, const AnsweredCall& call, bool of_chunk) {
    out += '{';
    if (of_chunk) fmt::format_to(std::back_inserter(out), R"("index":{},)", call.index);
    if (call.begins) {
      fmt::format_to(std::back_inserter(out), R"("id":{},"type":"function",)",
                     json::serialize(json::string_view(call.id)));
    }
    out += R"("function":{)";
    if (call.begins) {
      fmt::format_to(std::back_inserter(out), R"("name":{},)",
                     json::serialize(json::string_view(call.name)));
    }
    fmt::format_to(std::back_inserter(out), R"("arguments":{}}}}},)",
                   json::serialize(json::string_view(call.arguments)));
  }

  const Tokenizer& tokenizer_;
  bool logprobs_;
  bool token_ids_;
  bool forced_tokens_;
  std::string role_;
};

}  // namespace

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
  routes.push_back(
      {.method = "POST", .pattern = "/v1/chat/completions", .handler = handle, .metered = true});
  return routes;
}

}  // namespace quire
