// The conversation between a person (or a file of questions) and a model: reads messages, asks,
// shows answers, obeys commands.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "apps/chat/backend.h"
#include "apps/chat/history.h"
#include "apps/chat/interrupts.h"
#include "apps/chat/line_source.h"
#include "apps/chat/tools/call_runner.h"
#include "apps/chat/view.h"

namespace quire {

// Sampling parameters that ask for more than one answer and its text.
inline constexpr std::array<std::string_view, 4> kNotOfChats = {"n", "logprobs", "prompt_logprobs",
                                                                "return_forced_tokens"};

// How often a question's answers may call functions.
struct ToolRounds {
  json::value first_choice = "auto";  // `tool_choice` of the first answer; then the model chooses
  std::int64_t most = 8;              // answers with calls; the next one has to do without
};

class ChatSession {
 public:
  // Borrows all of them.
  ChatSession(ChatBackend& backend, LineSource& source, ChatView& view, Interrupts& interrupts,
              CallRunner& calls, ToolRounds rounds)
      : backend_(backend),
        source_(source),
        view_(view),
        interrupts_(interrupts),
        calls_(calls),
        rounds_(std::move(rounds)) {}

  void set_system(const std::string& text) { history_.set_system(text); }

  // Until the input's end or /exit. kCancelled after Ctrl-C twice at an empty prompt, or after an
  // interrupt where no person is there. With a person, errors are shown and the chat goes on;
  // without, the first one ends it. What cannot be written always does.
  Status run();

 private:
  struct CommandEntry {
    std::string_view name;
    std::string_view argument;  // empty: it has none
    std::string_view help;
    Status (ChatSession::*run)(const std::string& argument);
  };
  static std::span<const CommandEntry> commands();

  Status greet();
  Status obey(const std::string& line);
  Status ask(Conversation asked);
  json::value choice_of(std::int64_t round) const;
  Result<ChatAnswer> hear(const Conversation& asked, const json::value& choice, bool& stopped);
  Status add_results(Conversation& asked, const ChatAnswer& answer);
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
  CallRunner& calls_;
  ToolRounds rounds_;
  ChatHistory history_;
  std::optional<ChatAnswer> last_;  // without its text
  bool last_is_current_ = false;    // the conversation has not changed since
  bool asked_to_leave_ = false;     // the latest input was a Ctrl-C at an empty prompt
  bool ended_ = false;
};

}  // namespace quire
