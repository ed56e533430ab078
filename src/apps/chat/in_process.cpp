#include "apps/chat/in_process.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "apps/batch_runner.h"
#include "apps/generation_record.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

// Carries pieces from the engine's output thread, which must not wait for a terminal.
class Pieces {
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

ChatAnswer to_answer(std::string text, const RequestOutput& last, bool stop_requested) {
  ChatAnswer answer;
  answer.text = std::move(text);
  if (last.finish_reason == FinishReason::kLength) answer.end = ChatAnswer::End::kLength;
  if (last.finish_reason == FinishReason::kAbort && stop_requested) {
    answer.end = ChatAnswer::End::kStopped;
  }
  answer.num_prompt_tokens = last.num_prompt_tokens;
  answer.num_output_tokens = last.num_output_tokens;
  const RequestTimings timings = request_timings(last);
  answer.ttft_s = timings.ttft_s;
  if (timings.tpot_s > 0) answer.tokens_per_s = 1 / timings.tpot_s;
  return answer;
}

}  // namespace

Result<std::unique_ptr<InProcessChat>> InProcessChat::create(Engine& engine,
                                                             const json::object& sampling) {
  std::unique_ptr<InProcessChat> chat(new InProcessChat(engine));
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

Result<ChatAnswer> InProcessChat::answer(const Conversation& conversation, const OnText& on_text,
                                         std::stop_token stop) {
  QUIRE_ASSIGN_OR_RETURN(auto prompt, engine_.encode_chat(conversation));
  const std::int64_t length = std::ssize(prompt);
  const std::int64_t most = engine_.info().max_model_len;
  if (length >= most) {
    return Status::resource_exhausted(
        fmt::format("the conversation has {} tokens with this question, max_model_len is {}",
                    length, most),
        std::string(kTooLongRemedy));
  }
  SamplingParams params = params_;
  if (!max_tokens_given_) default_max_tokens(params, length, most);
  Pieces pieces;
  QUIRE_ASSIGN_OR_RETURN(
      const RequestId id,
      engine_.submit({.prompt_token_ids = std::move(prompt), .params = std::move(params)},
                     [&pieces](const RequestOutput& piece) { pieces.push(piece); }));
  const std::stop_callback stopping(stop, [this, id] { engine_.abort(id); });
  std::string text;
  Status status;
  while (true) {
    const RequestOutput piece = pieces.pop();
    text += piece.text;
    if (status.ok() && !piece.text.empty()) {
      status = on_text(piece.text);
      if (!status.ok()) engine_.abort(id);
    }
    if (!piece.request_finished) continue;
    QUIRE_RETURN_IF_ERROR(status);
    QUIRE_RETURN_IF_ERROR(piece.error);
    return to_answer(std::move(text), piece, stop.stop_requested());
  }
}

}  // namespace quire
