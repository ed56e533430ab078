// Any bytes as a stream of server-sent events, in pieces whose size the first byte gives: the same
// events and the same end as when they come at once; nothing that a line cannot hold is in them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/chat/sse_parser.h"

namespace {

struct Seen {
  std::vector<std::pair<std::string, std::string>> events;
  quire::StatusCode code = quire::StatusCode::kOk;

  bool operator==(const Seen&) const = default;
};

// Ends with an error of its own at the event "stop".
Seen parse(std::string_view bytes, std::size_t piece_size) {
  Seen seen;
  quire::SseParser parser([&](const quire::SseEvent& event) -> quire::Status {
    seen.events.emplace_back(event.type, event.data);
    if (event.data == "stop") return {quire::StatusCode::kCancelled, "stop"};
    return {};
  });
  while (!bytes.empty() && seen.code == quire::StatusCode::kOk) {
    const std::size_t count = std::min(piece_size, bytes.size());
    seen.code = parser.feed(bytes.substr(0, count)).code();
    bytes.remove_prefix(count);
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = parse(bytes, bytes.size() + 1);
  if (whole != parse(bytes, 1 + data[0] % 32)) std::abort();
  for (const auto& [type, text] : whole.events) {
    if (type.find_first_of("\r\n") != std::string::npos) std::abort();
    if (text.find('\r') != std::string::npos) std::abort();
    if (type.size() + text.size() > size) std::abort();
  }
  return 0;
}
