#include "apps/chat/sse_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Status SseParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (piece.front() == '\n') {
        piece.remove_prefix(1);
        continue;
      }
    }
    const std::size_t end = std::min(piece.find_first_of("\r\n"), piece.size());
    if (line_.size() + event_.data.size() + end > kMaxEventBytes) {
      return Status::resource_exhausted(
          fmt::format("an event of the stream has more than {} bytes", kMaxEventBytes));
    }
    line_ += piece.substr(0, end);
    if (end == piece.size()) return {};
    after_cr_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    QUIRE_RETURN_IF_ERROR(end_line());
  }
  return {};
}

Status SseParser::end_line() {
  std::string_view line = line_;
  if (first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  Status status;
  if (line.empty()) {
    status = dispatch();
  } else {
    take_field(line);
  }
  line_.clear();
  return status;
}

void SseParser::take_field(std::string_view line) {
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (name == "event") {
    event_.type = value;
  }
  // Comments have an empty name; ids and delays are for clients that reconnect.
}

Status SseParser::dispatch() {
  const Status status = std::exchange(has_data_, false) ? on_event_(event_) : Status();
  event_.type.clear();  // and keeps their memory for the next one
  event_.data.clear();
  return status;
}

}  // namespace quire
