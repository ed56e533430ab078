#include "serve/http/chunked_decoder.h"

#include <algorithm>

namespace quire {
namespace {

// What no line of HTTP may have in it (RFC 9110, section 5.5); a tab it may.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; }

}  // namespace

std::size_t ChunkedDecoder::feed(std::string_view bytes, std::string& body) {
  std::size_t used = 0;
  while (used < bytes.size() && !done() && !failed()) {
    if (state_ == State::kData) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(size_, bytes.size() - used));
      body.append(bytes.substr(used, count));
      used += count;
      size_ -= count;
      if (size_ == 0) state_ = State::kDataEnd;
    } else {
      take(bytes[used++]);
    }
  }
  return used;
}

void ChunkedDecoder::take(char c) {
  switch (state_) {
    case State::kSize:
      return take_size(c);
    case State::kExtension:
      if (c == '\r') {
        state_ = State::kSizeEnd;
      } else if (is_control(c) || ++line_bytes_ > kMaxLineBytes) {
        state_ = State::kFailed;
      }
      return;
    case State::kSizeEnd:
      if (c != '\n') {
        state_ = State::kFailed;
        return;
      }
      return end_size();
    case State::kDataEnd:
      state_ = c == '\r' ? State::kDataLineFeed : State::kFailed;
      return;
    case State::kDataLineFeed:
      state_ = c == '\n' ? State::kSize : State::kFailed;
      size_ = 0;
      num_digits_ = 0;
      return;
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerEnd;
      } else if (is_control(c) || ++line_bytes_ > kMaxLineBytes) {
        state_ = State::kFailed;
      } else {
        line_empty_ = false;
      }
      return;
    case State::kTrailerEnd:
      if (c != '\n') {
        state_ = State::kFailed;
        return;
      }
      state_ = line_empty_ ? State::kDone : State::kTrailer;
      line_empty_ = true;
      return;
    case State::kData:
    case State::kDone:
    case State::kFailed:
      return;
  }
}

void ChunkedDecoder::take_size(char c) {
  int digit = -1;
  if (c >= '0' && c <= '9') digit = c - '0';
  if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
  if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
  if (digit >= 0 && num_digits_ < kMaxDigits) {
    size_ = size_ * 16 + static_cast<std::uint64_t>(digit);
    ++num_digits_;
  } else if (num_digits_ > 0 && c == ';') {
    line_bytes_ = 0;
    state_ = State::kExtension;
  } else if (num_digits_ > 0 && c == '\r') {
    state_ = State::kSizeEnd;
  } else {
    state_ = State::kFailed;
  }
}

void ChunkedDecoder::end_size() {
  line_bytes_ = 0;
  line_empty_ = true;
  state_ = size_ == 0 ? State::kTrailer : State::kData;
}

}  // namespace quire
