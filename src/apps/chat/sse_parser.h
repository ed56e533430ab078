// Server-sent events (the WHATWG's HTML standard, 9.2.6) out of a stream of bytes that comes in
// pieces of any size. The size of an event is bounded, for the other side is not to be trusted
// with this one's memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

struct SseEvent {
  std::string type;  // empty where the stream names none: a "message"
  std::string data;  // the lines of data, with newlines between
};

class SseParser {
 public:
  static constexpr std::size_t kMaxEventBytes = std::size_t{1} << 20;
  using OnEvent = std::function<Status(const SseEvent& event)>;

  explicit SseParser(OnEvent on_event) : on_event_(std::move(on_event)) {}

  // Takes the next piece and calls back for every event that it completes, which lasts as long as
  // the call. Returns the first error of a call, or kResourceExhausted for an event of more than
  // kMaxEventBytes; nothing may be fed after it. An event that the stream leaves unfinished is
  // none.
  Status feed(std::string_view piece);

 private:
  Status end_line();
  void take_field(std::string_view line);
  Status dispatch();

  OnEvent on_event_;
  SseEvent event_;
  std::string line_;
  bool has_data_ = false;
  bool first_line_ = true;
  bool after_cr_ = false;  // a line feed that follows belongs to the line before
};

}  // namespace quire
