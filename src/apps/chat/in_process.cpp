#include "apps/chat/in_process.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "apps/batch_runner.h"
#include "apps/generation_record.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/openai/tool_fields.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

// What a request that names these tools has.
Result<ToolFields> read_chat_tools(const Conversation& conversation, const json::value& tool_choice,
                                   const Engine& engine, const AnswerDialect& dialect) {
  if (tool_choice.is_null()) return ToolFields();
  json::object fields = {{"tool_choice", tool_choice}};
  if (conversation.tools) fields["tools"] = *conversation.tools;
  return read_tools(JsonReader(fields, "chat", StatusCode::kInvalidArgument), ToolForm::kChat,
                    engine, dialect);
}

// Messages of the past with calls or reasoning as the template wants them; others are as they are.
Status prepare_messages(json::array& messages, std::string_view chat_template) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json::object& message = messages[i].get_object();
    if (!message.contains("tool_calls") && !message.contains("reasoning_content")) continue;
    QUIRE_RETURN_IF_ERROR(prepare_message(message, fmt::format("messages[{}]", i), chat_template));
  }
  return {};
}

void finish_answer(ChatAnswer& answer, const RequestOutput& last, bool stop_requested) {
  if (last.finish_reason == FinishReason::kLength) answer.end = ChatAnswer::End::kLength;
  if (last.finish_reason == FinishReason::kAbort && stop_requested) {
    answer.end = ChatAnswer::End::kStopped;
  }
  answer.num_prompt_tokens = last.num_prompt_tokens;
  answer.num_output_tokens = last.num_output_tokens;
  const RequestTimings timings = request_timings(last);
  answer.ttft_s = timings.ttft_s;
  if (timings.tpot_s > 0) answer.tokens_per_s = 1 / timings.tpot_s;
}

}  // namespace

// Carries pieces from the engine's output thread, which must not wait for a terminal.
class InProcessChat::Pieces {
 public:
  void push(const RequestOutput& piece) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(piece);
    changed_.notify_one();
  }

  RequestOutput pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    RequestOutput piece = std::move(waiting_.front());
    waiting_.pop_front();
    return piece;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RequestOutput> waiting_;
};

Result<std::unique_ptr<InProcessChat>> InProcessChat::create(Engine& engine,
                                                             const DialectChoice& dialect,
                                                             const json::object& sampling) {
  std::unique_ptr<InProcessChat> chat(new InProcessChat(engine, dialect));
  QUIRE_RETURN_IF_ERROR(chat->take_sampling(sampling));
  return chat;
}

Status InProcessChat::take_sampling(const json::object& fields) {
  SamplingParams params = params_;
  QUIRE_RETURN_IF_ERROR(
      read_sampling_fields(JsonReader(fields, "sampling", StatusCode::kInvalidArgument), params));
  params_ = std::move(params);
  for (const char* name : {"temperature", "top_k", "top_p", "min_p"}) {
    sampling_given_ = sampling_given_ || fields.contains(name);
  }
  max_tokens_given_ = max_tokens_given_ || fields.contains("max_tokens");
  return {};
}

Status InProcessChat::set_sampling(const std::string& name, const json::value& value) {
  return take_sampling({{name, value}});
}

std::string InProcessChat::sampling() const {
  const SamplingParams neutral;
  std::string text;
  for (const SamplingField& field : sampling_fields()) {
    if (field.name == "max_tokens" && !max_tokens_given_) continue;
    const json::value value = field.show(params_);
    if (field.name != "temperature" && value == field.show(neutral)) continue;
    // JSON's own way is 7E-1.
    const std::string shown =
        value.is_double() ? fmt::format("{}", value.get_double()) : json::serialize(value);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field.name, shown);
  }
  if (sampling_given_) return text;
  return text +
         (defaults_.recommended ? " (as the model recommends)" : " (the model recommends nothing)");
}

Status InProcessChat::check_tools() const {
  Conversation conversation;
  conversation.tools =
      json::array{json::object{{"type", "function"}, {"function", {{"name", "any"}}}}};
  return read_chat_tools(conversation, "auto", engine_, dialect_).status();
}

Result<GenerateRequest> InProcessChat::prepare(const Conversation& conversation,
                                               const json::value& tool_choice,
                                               AnswerParsing& parsing) const {
  QUIRE_ASSIGN_OR_RETURN(const ToolFields tools,
                         read_chat_tools(conversation, tool_choice, engine_, dialect_));
  Conversation shown = conversation;
  if (!tool_choice.is_null()) {
    shown.tools.reset();
    if (!tools.tools.empty()) shown.tools = tools.tools;
  }
  QUIRE_RETURN_IF_ERROR(prepare_messages(shown.messages, engine_.chat_template()));
  GenerateRequest request;
  QUIRE_ASSIGN_OR_RETURN(request.prompt_token_ids, engine_.encode_chat(shown));
  const std::int64_t length = std::ssize(request.prompt_token_ids);
  const std::int64_t most = engine_.info().max_model_len;
  if (length >= most) {
    return Status::resource_exhausted(
        fmt::format("the conversation has {} tokens with this question, max_model_len is {}",
                    length, most),
        std::string(kTooLongRemedy));
  }
  request.params = params_;
  if (!max_tokens_given_) default_max_tokens(request.params, length, most);
  QUIRE_ASSIGN_OR_RETURN(parsing, hold_answer(tools, std::nullopt, dialect_, engine_.tokenizer(),
                                              request.prompt_token_ids, request.params));
  request.shown_special_tokens = dialect_.shown_special_tokens(parsing.tools != nullptr);
  return request;
}

Result<ChatAnswer> InProcessChat::answer(const Conversation& conversation,
                                         const json::value& tool_choice, const OnText& on_text,
                                         std::stop_token stop) {
  AnswerParsing parsing;
  QUIRE_ASSIGN_OR_RETURN(GenerateRequest request, prepare(conversation, tool_choice, parsing));
  Pieces pieces;
  QUIRE_ASSIGN_OR_RETURN(const RequestId id,
                         engine_.submit(std::move(request), [&pieces](const RequestOutput& piece) {
                           pieces.push(piece);
                         }));
  return read_answer(id, pieces, parsing, on_text, stop);
}

Result<ChatAnswer> InProcessChat::read_answer(RequestId id, Pieces& pieces,
                                              const AnswerParsing& parsing, const OnText& on_text,
                                              const std::stop_token& stop) {
  const std::stop_callback stopping(stop, [this, id] { engine_.abort(id); });
  AnswerReader reader(parsing);
  ChatAnswer answer;
  Status status;
  const auto show = [&](Piece kind, const std::string& text) {
    if (!status.ok() || text.empty()) return;
    status = on_text(kind, text);
    if (!status.ok()) engine_.abort(id);
  };
  while (true) {
    const RequestOutput piece = pieces.pop();
    AnswerParts parts;
    if (parsing.reads()) {
      parts = parts_of(reader.read(piece.text, piece.request_finished));
    } else {
      parts.content = piece.text;
    }
    answer.reasoning += parts.reasoning;
    answer.text += parts.content;
    add_parts(answer.calls, std::move(parts.calls));
    show(Piece::kReasoning, parts.reasoning);
    show(Piece::kContent, parts.content);
    if (!piece.request_finished) continue;
    QUIRE_RETURN_IF_ERROR(status);
    QUIRE_RETURN_IF_ERROR(piece.error);
    finish_answer(answer, piece, stop.stop_requested());
    return answer;
  }
}

}  // namespace quire
