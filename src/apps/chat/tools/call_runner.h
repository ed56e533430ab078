// Runs the calls that a model's answers make, each shown to the person and agreed to before.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/chat/interrupts.h"
#include "apps/chat/line_source.h"
#include "apps/chat/tools/chat_function.h"
#include "apps/chat/view.h"
#include "base/json.h"
#include "base/status.h"
#include "serve/generation/answer_reader.h"

namespace quire {

class CallRunner {
 public:
  // Borrows all but the functions. `ask`: else every call runs unasked.
  CallRunner(std::vector<ChatFunction> functions, bool ask, LineSource& source, ChatView& view,
             Interrupts& interrupts)
      : functions_(std::move(functions)),
        ask_(ask),
        source_(source),
        view_(view),
        interrupts_(interrupts) {}

  bool empty() const { return functions_.empty(); }
  // As a request declares them: {"type": "function", "function": {...}}.
  json::array tools() const;

  // The message of the role `tool` that answers a call: its result, or why there is none (an
  // unknown function, arguments that are no object, the person's no, a failure, Ctrl-C). Errors:
  // those of reading and showing; kCancelled where the program is asked to end.
  Result<json::object> answer(const AnsweredCall& call);

 private:
  Result<std::string> run(const AnsweredCall& call);
  Result<bool> may_run(const ChatFunction& function);
  Status unknown(const std::string& name) const;

  std::vector<ChatFunction> functions_;
  bool ask_;
  std::set<std::string, std::less<>> always_;  // names that the person need not be asked about
  LineSource& source_;
  ChatView& view_;
  Interrupts& interrupts_;
};

// kInvalidArgument for a name that no function may have, or that two have; kResourceExhausted for
// more functions than an answer can be told of.
Status check_functions(const std::vector<ChatFunction>& functions);

}  // namespace quire
