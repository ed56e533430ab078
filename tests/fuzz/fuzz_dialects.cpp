// Any bytes as a model's answer, read by the dialects that the first two bytes choose, in pieces
// whose size the third gives: the same comes out as of the whole, each call begins before its
// arguments and ends once, and no more comes out than escapes can make of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/dialects/output_parser.h"

namespace {

using Kind = quire::OutputEvent::Kind;

std::shared_ptr<const quire::ToolSet> tools() {
  static const auto kTools = std::make_shared<const quire::ToolSet>(
      quire::parse_json(R"([{"type": "function", "function": {"name": "get", "parameters": {
          "properties": {"city": {"type": "string"}, "n": {"type": "integer"},
                         "z": {"type": ["string", "null"]}, "l": {"type": "array"}}}}}])",
                        "tools")
          ->as_array());
  return kTools;
}

std::vector<quire::OutputEvent> parse(const quire::OutputDialect& dialect,
                                      quire::ReasoningStart start, bool calls,
                                      std::string_view text, std::size_t piece_size) {
  quire::OutputParser parser(dialect, calls ? tools() : nullptr, start, 1);
  std::vector<quire::OutputEvent> events;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_size);
    parser.feed(piece, events);
    text.remove_prefix(piece.size());
  }
  parser.finish(events);
  // As one list: neighbours of a kind joined over the pieces.
  std::vector<quire::OutputEvent> joined;
  for (quire::OutputEvent& event : events) {
    const bool grows = event.kind == Kind::kContent || event.kind == Kind::kReasoning ||
                       event.kind == Kind::kArguments;
    if (grows && !joined.empty() && joined.back().kind == event.kind) {
      joined.back().text += event.text;
    } else {
      joined.push_back(std::move(event));
    }
  }
  return joined;
}

void check(const std::vector<quire::OutputEvent>& events, std::size_t size) {
  int open = -1;
  int next = 0;
  std::size_t bytes = 0;
  for (const quire::OutputEvent& event : events) {
    bytes += event.text.size();
    switch (event.kind) {
      case Kind::kContent:
      case Kind::kReasoning:
        if (open >= 0 || event.text.empty()) std::abort();
        break;
      case Kind::kCall:
        if (open >= 0 || event.index != next || event.id.empty()) std::abort();
        open = next++;
        break;
      case Kind::kArguments:
        if (event.index != open || event.text.empty()) std::abort();
        break;
      case Kind::kCallEnd:
        if (event.index != open) std::abort();
        open = -1;
        break;
    }
  }
  if (open >= 0 || bytes > 8 * size + 8) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto all_tools = quire::tool_dialects();
  const auto all_reasoning = quire::reasoning_dialects();
  quire::OutputDialect dialect;
  dialect.tools = &all_tools[data[0] % all_tools.size()];
  const std::size_t reasoning = data[1] % (all_reasoning.size() + 1);
  if (reasoning < all_reasoning.size()) dialect.reasoning = &all_reasoning[reasoning];
  const bool calls = (data[2] & 0x80) == 0;
  const auto start = static_cast<quire::ReasoningStart>((data[2] >> 5) % 3);
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto whole = parse(dialect, start, calls, text, text.size() + 1);
  check(whole, size);
  if (parse(dialect, start, calls, text, 1 + data[2] % 32) != whole) std::abort();
  return 0;
}
