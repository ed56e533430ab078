#include "apps/chat/remote.h"

#include <chrono>

#include <fmt/format.h>

#include "apps/chat/sse_parser.h"
#include "base/printable.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxModelListBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxCalls = 128;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

Status malformed(std::string_view what) {
  return Status::unavailable(
      fmt::format("the server's stream is not one of chat completions: {}", printable(what)),
      "is this an OpenAI-compatible server?");
}

// Gathers an answer from the chunks of its stream.
class AnswerStream {
 public:
  // `calls`: whether it may call tools.
  AnswerStream(bool calls, const ChatBackend::OnText& on_text) : calls_(calls), on_text_(on_text) {}

  Status add(const SseEvent& event) {
    if (done_) return {};
    if (event.data == "[DONE]") {
      done_ = true;
      return {};
    }
    const auto chunk = parse_json(event.data, "chunk");
    if (!chunk.ok() || !chunk->is_object()) return malformed(event.data);
    const JsonReader reader(chunk->get_object(), "chunk", StatusCode::kUnavailable);
    if (const json::value* error = reader.find("error")) return stream_error(*error);
    QUIRE_RETURN_IF_ERROR(take_usage(reader));
    const json::value* choices = reader.find("choices");
    if (choices == nullptr || !choices->is_array()) return malformed(event.data);
    if (choices->get_array().empty()) return {};  // usage comes so
    const json::value& choice = choices->get_array()[0];
    return choice.is_object() ? take_choice(choice.get_object()) : malformed(event.data);
  }

  bool complete() const { return done_ || finished_; }

  ChatAnswer finish(Clock::time_point asked, bool stopped) {
    if (stopped) answer_.end = ChatAnswer::End::kStopped;
    if (first_) answer_.ttft_s = seconds(*first_ - asked);
    const auto tokens = answer_.num_output_tokens.value_or(0);
    if (tokens > 1 && last_ > *first_) {
      answer_.tokens_per_s = static_cast<double>(tokens - 1) / seconds(last_ - *first_);
    }
    return std::move(answer_);
  }

 private:
  static Status stream_error(const json::value& error) {
    const json::value* message =
        error.is_object() ? error.get_object().if_contains("message") : &error;
    const std::string text = message != nullptr && message->is_string()
                                 ? std::string(message->get_string())
                                 : json::serialize(error);
    return Status::unavailable("the server broke off: " + printable(text, 1000));
  }

  Status take_usage(const JsonReader& chunk) {
    if (!chunk.contains("usage")) return {};
    QUIRE_ASSIGN_OR_RETURN(const JsonReader usage, chunk.get_object("usage"));
    QUIRE_ASSIGN_OR_RETURN(answer_.num_prompt_tokens, usage.find_int("prompt_tokens"));
    QUIRE_ASSIGN_OR_RETURN(answer_.num_output_tokens, usage.find_int("completion_tokens"));
    return {};
  }

  Status take_choice(const json::object& object) {
    const JsonReader choice(object, "choice", StatusCode::kUnavailable);
    QUIRE_ASSIGN_OR_RETURN(const auto reason, choice.find_string("finish_reason"));
    if (reason) {
      finished_ = true;
      if (*reason == "length") answer_.end = ChatAnswer::End::kLength;
    }
    if (!choice.contains("delta")) return {};
    QUIRE_ASSIGN_OR_RETURN(const JsonReader delta, choice.get_object("delta"));
    QUIRE_RETURN_IF_ERROR(take_text(delta, "reasoning", ChatBackend::Piece::kReasoning));
    if (!delta.contains("reasoning")) {
      QUIRE_RETURN_IF_ERROR(take_text(delta, "reasoning_content", ChatBackend::Piece::kReasoning));
    }
    QUIRE_RETURN_IF_ERROR(take_text(delta, "content", ChatBackend::Piece::kContent));
    return take_calls(delta);
  }

  Status take_text(const JsonReader& delta, std::string_view field, ChatBackend::Piece kind) {
    QUIRE_ASSIGN_OR_RETURN(const auto text, delta.find_string(field));
    if (!text || text->empty()) return {};
    QUIRE_RETURN_IF_ERROR(count(text->size()));
    (kind == ChatBackend::Piece::kReasoning ? answer_.reasoning : answer_.text) += *text;
    return on_text_(kind, *text);
  }

  Status take_calls(const JsonReader& delta) {
    const json::value* calls = delta.find("tool_calls");
    if (calls == nullptr || (calls->is_array() && calls->get_array().empty())) return {};
    if (!calls_) return Status::unimplemented("the answer calls a tool; a chat has none to run");
    if (!calls->is_array()) return malformed(json::serialize(*calls));
    for (const json::value& call : calls->get_array()) {
      if (!call.is_object()) return malformed(json::serialize(call));
      QUIRE_RETURN_IF_ERROR(
          take_call(JsonReader(call.get_object(), "tool_calls", StatusCode::kUnavailable)));
    }
    return {};
  }

  // A call, or what a piece adds to one.
  Status take_call(const JsonReader& piece) {
    QUIRE_ASSIGN_OR_RETURN(const auto index, piece.find_int("index"));
    const auto at = static_cast<std::size_t>(index.value_or(0));
    if (at > answer_.calls.size()) return malformed(json::serialize(piece.object()));
    if (at == answer_.calls.size()) {
      if (at == kMaxCalls) {
        return Status::resource_exhausted(
            fmt::format("the answer has more than {} calls", kMaxCalls));
      }
      answer_.calls.emplace_back().index = static_cast<int>(at);
    }
    AnsweredCall& call = answer_.calls[at];
    QUIRE_ASSIGN_OR_RETURN(const auto id, piece.find_string("id"));
    if (id) call.id = *id;
    if (!piece.contains("function")) return {};
    QUIRE_ASSIGN_OR_RETURN(const JsonReader function, piece.get_object("function"));
    QUIRE_ASSIGN_OR_RETURN(const auto name, function.find_string("name"));
    QUIRE_ASSIGN_OR_RETURN(const auto arguments, function.find_string("arguments"));
    call.name += name.value_or("");
    call.arguments += arguments.value_or("");
    return count(name.value_or("").size() + arguments.value_or("").size());
  }

  // Of text, reasoning and calls together.
  Status count(std::size_t bytes) {
    num_bytes_ += bytes;
    if (num_bytes_ > kMaxAnswerBytes) {
      return Status::resource_exhausted(
          fmt::format("the answer has more than {} bytes", kMaxAnswerBytes));
    }
    last_ = Clock::now();
    if (!first_) first_ = last_;
    return {};
  }

  const bool calls_;
  const ChatBackend::OnText& on_text_;
  ChatAnswer answer_;
  std::size_t num_bytes_ = 0;
  std::optional<Clock::time_point> first_;
  Clock::time_point last_;
  bool finished_ = false;
  bool done_ = false;
};

// Whether a server's refusal says that the conversation is too long.
bool says_too_long(const Status& status) {
  if (status.code() != StatusCode::kInvalidArgument) return false;
  for (const char* phrase :
       {"context length", "context_length", "max_model_len", "max-model-len"}) {
    if (status.message().find(phrase) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<RemoteChat>> RemoteChat::connect(RemoteChatArgs args) {
  QUIRE_ASSIGN_OR_RETURN(HttpClient client, HttpClient::create(args.base_url, args.api_key));
  std::unique_ptr<RemoteChat> chat(new RemoteChat(std::move(args), std::move(client)));
  QUIRE_RETURN_IF_ERROR(chat->find_model());
  return chat;
}

Status RemoteChat::find_model() {
  std::string body;
  const auto gather = [&body](std::string_view piece) -> Status {
    if (body.size() + piece.size() > kMaxModelListBytes) {
      return Status::resource_exhausted("the server's list of models is too long");
    }
    body += piece;
    return {};
  };
  const Status status = client_.request("/models", std::nullopt, gather, {});
  // A server may serve a model without listing any.
  if (status.code() == StatusCode::kNotFound && !args_.model_name.empty()) return {};
  QUIRE_RETURN_IF_ERROR(status);
  const auto list = parse_json(body, client_.base_url() + "/models");
  const json::value* data =
      list.ok() && list->is_object() ? list->get_object().if_contains("data") : nullptr;
  if (data == nullptr || !data->is_array()) {
    return Status::unavailable(client_.base_url() + "/models is not a list of models",
                               "is this an OpenAI-compatible server?");
  }
  for (const json::value& entry : data->get_array()) {
    if (!entry.is_object()) continue;
    const JsonReader model(entry.get_object(), "model", StatusCode::kUnavailable);
    QUIRE_ASSIGN_OR_RETURN(const std::string id, model.get_string("id"));
    if (!args_.model_name.empty() && id != args_.model_name) continue;
    args_.model_name = id;
    QUIRE_ASSIGN_OR_RETURN(max_model_len_, model.find_int("max_model_len"));
    return {};
  }
  if (!args_.model_name.empty()) return {};
  return Status::not_found(client_.base_url() + " lists no model", "name one with --model-name");
}

std::string RemoteChat::sampling() const {
  std::string text;
  for (const auto& [name, value] : args_.sampling) {
    text += fmt::format("{} {}, ", std::string(name), json::serialize(value));
  }
  return text +
         (text.empty() ? "as the server does by itself" : "else as the server does by itself");
}

Status RemoteChat::set_sampling(const std::string& name, const json::value& value) {
  args_.sampling[name] = value;
  return {};
}

std::string RemoteChat::request_body(const Conversation& conversation,
                                     const json::value& tool_choice) {
  json::object body = args_.sampling;
  body["model"] = args_.model_name;
  body["messages"] = conversation.messages;
  if (conversation.tools) body["tools"] = *conversation.tools;
  if (!tool_choice.is_null()) body["tool_choice"] = tool_choice;
  if (conversation.documents) body["documents"] = *conversation.documents;
  if (!conversation.chat_template_kwargs.empty()) {
    body["chat_template_kwargs"] = conversation.chat_template_kwargs;
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (args_.seed) body["seed"] = (*args_.seed)++;
  return json::serialize(body);
}

Result<ChatAnswer> RemoteChat::answer(const Conversation& conversation,
                                      const json::value& tool_choice, const OnText& on_text,
                                      std::stop_token stop) {
  AnswerStream stream(!tool_choice.is_null(), on_text);
  SseParser parser([&stream](const SseEvent& event) { return stream.add(event); });
  const Clock::time_point asked = Clock::now();
  const Status status = client_.request(
      "/chat/completions", request_body(conversation, tool_choice),
      [&parser](std::string_view piece) { return parser.feed(piece); }, stop);
  const bool stopped = status.code() == StatusCode::kCancelled;
  if (says_too_long(status)) {
    return Status::resource_exhausted(status.message(), std::string(kTooLongRemedy));
  }
  if (!status.ok() && !stopped) return status;
  if (!stopped && !stream.complete()) {
    return Status::unavailable("the server closed the connection in the middle of its answer");
  }
  return stream.finish(asked, stopped);
}

}  // namespace quire
