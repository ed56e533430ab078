// What a chat shows. On a terminal everything goes there, notes in another colour; elsewhere
// answers alone go to standard output, and notes to standard error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apps/chat/wait_mark.h"
#include "apps/output_file.h"

namespace quire {

class ChatView {
 public:
  // Whether to talk with a person: standard input and output are terminals.
  static Result<ChatView> create();

  bool interactive() const { return interactive_; }

  // Shows that an answer is waited for, until it is destroyed; null where nobody is there to see
  // it.
  std::unique_ptr<WaitMark> waiting() const;
  // A piece of an answer: whole characters.
  Status answer(std::string_view piece);
  // A piece of the reasoning before it, which only a person sees.
  Status reasoning(std::string_view piece);
  Status end_answer();  // ends its line
  // Breaks lines at words.
  Status note(std::string_view text);
  Status error(const Status& status);

 private:
  ChatView(OutputFile output, bool interactive, bool color)
      : output_(std::move(output)), interactive_(interactive), color_(color) {}

  Status end_reasoning(std::string_view gap);

  OutputFile output_;
  bool interactive_;
  bool color_;
  bool in_reasoning_ = false;
};

}  // namespace quire
