// What answers in a chat: an engine in this process, or a server.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/generation/answer_reader.h"
#include "text/conversation.h"

namespace quire {

struct ChatAnswer {
  enum class End {
    kStop,     // the model came to an end
    kLength,   // max_tokens, or the context is full
    kStopped,  // by the user
  };

  std::string text;  // as far as it came
  std::string reasoning;
  std::vector<AnsweredCall> calls;
  End end = End::kStop;
  std::optional<std::int64_t> num_prompt_tokens;  // a server tells at the end of an answer only
  std::optional<std::int64_t> num_output_tokens;
  double ttft_s = 0;        // question to first text; 0 where none came
  double tokens_per_s = 0;  // after the first token; 0 where that is not known
};

class ChatBackend {
 public:
  enum class Piece : std::uint8_t { kContent, kReasoning };
  // Called with each new piece of an answer, whole characters only. An error ends the answer.
  using OnText = std::function<Status(Piece kind, std::string_view text)>;

  virtual ~ChatBackend() = default;

  virtual std::string_view model_name() const = 0;
  virtual std::optional<std::int64_t> max_model_len() const = 0;

  // How answers are sampled: "temperature 0.7, top_p 0.95 (...)".
  virtual std::string sampling() const = 0;
  // Samples the next answers with this field as a request writes it. kInvalidArgument for a value
  // that cannot be.
  virtual Status set_sampling(const std::string& name, const json::value& value) = 0;

  // Whether answers could call tools at all; kUnimplemented saying what is missing. A server is
  // not asked: it says so of a request.
  virtual Status check_tools() const { return {}; }

  // Answers the conversation's last message; calls `on_text` on this thread. `tool_choice`: as a
  // request has it, of the conversation's tools; null: calls are not looked for. A stop that is
  // requested (from any thread) ends the answer soon, with what came so far. kResourceExhausted
  // where the conversation does not fit into the model's context.
  virtual Result<ChatAnswer> answer(const Conversation& conversation,
                                    const json::value& tool_choice, const OnText& on_text,
                                    std::stop_token stop) = 0;
};

// What to say where a conversation does not fit.
inline constexpr std::string_view kTooLongRemedy =
    "the question was not kept; /undo takes back the one before, /clear starts anew";

}  // namespace quire
