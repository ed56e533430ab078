// The conversation between a person (or a file of questions) and a model: reads messages, asks,
// shows answers, obeys commands.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/chat/backend.h"
#include "apps/chat/history.h"
#include "apps/chat/interrupts.h"
#include "apps/chat/line_source.h"
#include "apps/chat/view.h"

namespace quire {

class ChatSession {
 public:
  // Borrows all of them.
  ChatSession(ChatBackend& backend, LineSource& source, ChatView& view, Interrupts& interrupts)
      : backend_(backend), source_(source), view_(view), interrupts_(interrupts) {}

  void set_system(const std::string& text) { history_.set_system(text); }

  // Until the input's end or /exit. kCancelled after Ctrl-C twice at an empty prompt, or after an
  // interrupt where no person is there. With a person, errors are shown and the chat goes on;
  // without, the first one ends it. What cannot be written always does.
  Status run();

 private:
  struct CommandEntry {
    std::string_view name;
    std::string_view argument;  // empty: takes none
    std::string_view help;
    Status (ChatSession::*run)(const std::string& argument);
  };
  static std::span<const CommandEntry> commands();

  Status greet();
  Status obey(const std::string& line);
  Status ask(Conversation asked);
  Status note_end(const ChatAnswer& answer);
  Status handle(const UserInput& input);

  Status help(const std::string&);
  Status clear(const std::string&);
  Status system(const std::string& text);
  Status regenerate(const std::string&);
  Status undo(const std::string&);
  Status save(const std::string& path);
  Status load(const std::string& path);
  Status set(const std::string& text);
  Status stats(const std::string&);
  Status exit(const std::string&);

  ChatBackend& backend_;
  LineSource& source_;
  ChatView& view_;
  Interrupts& interrupts_;
  ChatHistory history_;
  std::optional<ChatAnswer> last_;  // without its text
  bool last_is_current_ = false;    // the conversation has not changed since
  bool asked_to_leave_ = false;     // the latest input was a Ctrl-C at an empty prompt
  bool ended_ = false;
};

}  // namespace quire
