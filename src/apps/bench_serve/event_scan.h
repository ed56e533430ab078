// What one event of a completion's stream says, found by walking over its keys instead of parsing
// it: an event of a token costs a fraction of a microsecond so, and thousands of streams fit on one
// core.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire::bench {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt; 0 where the server does not say
};

struct EventFacts {
  bool has_text = false;  // text, content, reasoning or a refusal that is not empty, or a tool call
  bool finished = false;  // a finish_reason is given
  bool is_error = false;
  std::optional<Usage> usage;
};

// `data` is the data of one event, "[DONE]" excepted.
EventFacts scan_event(std::string_view data);

}  // namespace quire::bench
