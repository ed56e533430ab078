// For tests: answers of models in each dialect, written as the vendors' templates and cards have
// them, apart from the tables that are under test.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/dialects/output_parser.h"
#include "text/dialects/tool_set.h"

namespace quire {

struct SampleCall {
  std::string name;
  json::object arguments;
};

// What a parser made of an answer.
struct ParsedAnswer {
  struct Call {
    std::string name;
    std::string id;
    std::string arguments;
    bool ended = false;
    bool operator==(const Call&) const = default;
  };
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;
  std::string order;  // of the kinds: t(ext), r(easoning), c(all)

  bool operator==(const ParsedAnswer&) const = default;
};

// Tools "get" and "set", with the parameters that the samples use.
json::array sample_tools();
// Twelve arguments, plain and awkward.
std::vector<json::object> sample_arguments();
// The text of calls in a dialect of the tables; empty: the dialect has no sample.
std::string write_calls(std::string_view dialect, const std::vector<SampleCall>& calls);

// Parses `text` in the pieces that `cuts` (increasing positions) make of it.
ParsedAnswer parse_pieces(const OutputDialect& dialect, const std::shared_ptr<const ToolSet>& tools,
                          ReasoningStart start, std::string_view text,
                          const std::vector<std::size_t>& cuts);

}  // namespace quire
