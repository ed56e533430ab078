// The messages of a chat, and what can be done to them. Every change is whole: a question without
// an answer is never left behind.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/chat/backend.h"
#include "base/status.h"
#include "text/conversation.h"

namespace quire {

// An answer as a message, as a request has it.
json::object answer_message(const ChatAnswer& answer);

class ChatHistory {
 public:
  const Conversation& conversation() const { return conversation_; }

  std::string_view system() const;           // the first message where that is the system's
  void set_system(const std::string& text);  // an empty one removes it
  void clear();                              // all but the system message
  bool undo();                               // the last question and its answer; false: none

  // The conversation that ends with a further question.
  Conversation asking(const std::string& question) const;
  // The conversation up to the last question, to answer that again; nullopt where there is none.
  std::optional<Conversation> asking_again() const;
  // Takes one of the two, what its calls have added, and its answer.
  void take(Conversation asked, const ChatAnswer& answer);

  // Writes an object with "messages" on one line: what `quire template --input` reads, and
  // `quire generate --input` as long as the conversation has messages alone.
  Status save(const std::string& path) const;
  // Reads such a file, or any that parse_conversation reads. kInvalidArgument for one whose prompt
  // is to end otherwise than a chat's does.
  static Result<ChatHistory> load(const std::string& path);

 private:
  // Index of the last message by `user`, the number of messages where there is none.
  std::size_t last_question() const;

  Conversation conversation_;
};

}  // namespace quire
