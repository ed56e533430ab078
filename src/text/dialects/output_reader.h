// Readers of whole answers. Internal to src/text/dialects.
#pragma once

#include <memory>

#include "text/dialects/call_reader.h"
#include "text/dialects/output_parser.h"

namespace quire {

class OutputWriter : public CallSink {
 public:
  virtual void content(char c) = 0;
  virtual void reasoning(char c) = 0;
};

class OutputReader {
 public:
  virtual ~OutputReader() = default;
  virtual void feed(char c) = 0;
  virtual void finish() = 0;
};

// Of dialects with marks.
std::unique_ptr<OutputReader> new_mark_reader(const OutputDialect& dialect,
                                              std::shared_ptr<const ToolSet> tools,
                                              ReasoningStart start, OutputWriter& writer);
// Of harmony. `reasoning`: null where it is content.
std::unique_ptr<OutputReader> new_channel_reader(bool calls, const ReasoningDialect* reasoning,
                                                 OutputWriter& writer);

}  // namespace quire
