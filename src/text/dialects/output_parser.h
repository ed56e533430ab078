// What a model writes, cut into content, reasoning and calls of tools as it comes, by a dialect
// (text/dialects/dialect.h).
//
// The result depends on the whole text alone, not on the pieces in which it came. What began like a
// call and is none is text; nothing is lost but marks, and white space around calls and reasoning.
// Arguments are passed on as they come: once a call is certain (its name is complete and its
// arguments have begun) it stays one, and arguments that turn out to be no JSON are as the model
// wrote them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/dialects/dialect.h"
#include "text/dialects/tool_set.h"

namespace quire {

struct OutputEvent {
  enum class Kind : std::uint8_t { kContent, kReasoning, kCall, kArguments, kCallEnd };

  Kind kind = Kind::kContent;
  std::string text;     // of content, reasoning, arguments; a call's name
  int index = 0;        // of the call, from 0
  std::string id = {};  // of the call, with kCall

  bool operator==(const OutputEvent&) const = default;
};

// What a prompt says of where its answer begins.
enum class ReasoningStart : std::uint8_t {
  kUnsaid,
  kOpen,    // within reasoning
  kClosed,  // behind it
};

// `prompt_tail`: at least the last 64 bytes of the prompt, special tokens written out.
ReasoningStart reasoning_start(const ReasoningDialect& dialect, std::string_view prompt_tail);

class OutputReader;

class OutputParser {
 public:
  // `tools`: null where calls are not looked for. `id_seed` decides what ids calls get. The
  // dialects are borrowed.
  OutputParser(const OutputDialect& dialect, std::shared_ptr<const ToolSet> tools,
               ReasoningStart start, std::uint64_t id_seed);
  ~OutputParser();

  // Appends what the piece makes certain to `events`; neighbours of a kind are joined.
  void feed(std::string_view piece, std::vector<OutputEvent>& events);
  // The text has ended. No call follows.
  void finish(std::vector<OutputEvent>& events);

  // Calls so far.
  int num_calls() const;

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<OutputReader> reader_;
};

}  // namespace quire
