// An output's text as its protocol answers it: content, reasoning and calls of tools.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/dialects/output_parser.h"

namespace quire {

// How the outputs of a request are read; as it is made, all of their text is content.
struct AnswerParsing {
  OutputDialect dialect;
  std::shared_ptr<const ToolSet> tools;  // that may be called; null: calls are text
  ReasoningStart start = ReasoningStart::kUnsaid;
  bool include_reasoning = true;  // else it is left out of the answer
  bool parallel_calls = true;     // else all calls but the first are

  bool reads() const {
    return dialect.reasoning != nullptr || (tools != nullptr && dialect.tools != nullptr);
  }
};

// A call, or what a piece adds to one.
struct AnsweredCall {
  int index = 0;
  bool begins = false;  // with this piece; then it has an id and a name
  std::string id;
  std::string name;
  std::string arguments;
};

struct AnswerParts {
  std::string content;
  std::string reasoning;
  std::vector<AnsweredCall> calls;
};

class AnswerReader {
 public:
  explicit AnswerReader(const AnswerParsing& parsing);

  // What the next piece of the text makes certain, in order; `last`: nothing follows.
  std::vector<OutputEvent> read(std::string_view text, bool last);
  // Whether a call has begun.
  bool any_calls() const { return parser_.num_calls() > 0; }

 private:
  OutputParser parser_;
  bool include_reasoning_;
  bool parallel_calls_;
};

// The same as parts, for protocols in which their order does not count.
AnswerParts parts_of(const std::vector<OutputEvent>& events);
// Adds a piece to what came before it.
void add_parts(std::vector<AnsweredCall>& calls, std::vector<AnsweredCall> piece);

}  // namespace quire
