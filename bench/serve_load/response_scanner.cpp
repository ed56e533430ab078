#include "serve_load/response_scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

namespace quire::load {
namespace {

constexpr std::size_t kMaxHead = 64 * 1024;
constexpr std::size_t kMaxLine = 1024 * 1024;

bool same_text(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Cuts the first line off, without its end.
std::string_view cut_line(std::string_view& text) {
  const std::size_t end = std::min(text.find("\r\n"), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 2, text.size()));
  return line;
}

}  // namespace

std::size_t ResponseScanner::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && phase_ != Phase::kDone && phase_ != Phase::kError) {
    const std::string_view rest = bytes.substr(used);
    switch (phase_) {
      case Phase::kHead:
        used += take_head(rest);
        break;
      case Phase::kLength:
      case Phase::kChunkData: {
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, rest.size()));
        scan_body(rest.substr(0, size));
        used += size;
        remaining_ -= size;
        if (remaining_ == 0) {
          phase_ = phase_ == Phase::kLength ? Phase::kDone : Phase::kChunkEnd;
        }
        break;
      }
      case Phase::kUntilClose:
        scan_body(rest);
        used += rest.size();
        break;
      case Phase::kChunkSize:
      case Phase::kChunkEnd:
      case Phase::kTrailer:
        used += take_line(rest);
        break;
      case Phase::kDone:
      case Phase::kError:
        break;
    }
  }
  return used;
}

void ResponseScanner::close() {
  if (phase_ == Phase::kUntilClose) phase_ = Phase::kDone;
}

void ResponseScanner::next() {
  phase_ = Phase::kHead;
  head_.clear();
  line_.clear();
  event_line_.clear();
  body_.clear();
  stream_done_ = false;
  in_event_ = false;
  event_stream_ = false;
}

std::size_t ResponseScanner::take_head(std::string_view bytes) {
  // The end may lie across the border to what came before.
  const std::size_t before = head_.size();
  head_ += bytes.substr(0, kMaxHead);
  const std::size_t end = head_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    if (head_.size() >= kMaxHead) fail("a head without an end");
    return bytes.size();
  }
  head_.resize(end + 4);
  const std::size_t used = head_.size() - before;
  parse_head();
  return used;
}

void ResponseScanner::parse_head() {
  std::string_view rest(head_);
  const std::string_view status_line = cut_line(rest);
  const bool is_http = status_line.size() >= 12 && status_line.starts_with("HTTP/1.");
  int status = 0;
  if (is_http) {
    std::from_chars(status_line.data() + 9, status_line.data() + 12, status);
  }
  if (status < 100 || status > 599) return fail("no status line");
  if (status < 200) {  // an interim answer; the real one follows
    head_.clear();
    return;
  }
  status_ = status;
  keep_alive_ = status_line[7] == '1';
  bool chunked = false;
  bool has_length = false;
  remaining_ = 0;
  while (!rest.empty()) {
    const std::string_view line = cut_line(rest);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return fail("a header without a colon");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (same_text(name, "content-length")) {
      const auto [at, code] =
          std::from_chars(value.data(), value.data() + value.size(), remaining_);
      has_length = code == std::errc() && at == value.data() + value.size();
      if (!has_length) return fail("a broken Content-Length");
    } else if (same_text(name, "transfer-encoding")) {
      chunked = same_text(value, "chunked");
    } else if (same_text(name, "content-type")) {
      event_stream_ = value.starts_with("text/event-stream");
    } else if (same_text(name, "connection")) {
      keep_alive_ = !same_text(value, "close");
    }
  }
  if (chunked) {
    phase_ = Phase::kChunkSize;
  } else if (has_length) {
    phase_ = remaining_ == 0 ? Phase::kDone : Phase::kLength;
  } else {
    phase_ = Phase::kUntilClose;
    keep_alive_ = false;
  }
}

std::size_t ResponseScanner::take_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  line_ += bytes.substr(0, end);
  if (line_.size() > 1024) {
    fail("a chunk without an end");
    return bytes.size();
  }
  if (end == std::string_view::npos) return bytes.size();
  if (line_.empty() || line_.back() != '\r') {
    fail("a line of the framing without CR");
  } else {
    line_.pop_back();
    end_line();
  }
  line_.clear();
  return end + 1;
}

void ResponseScanner::end_line() {
  if (phase_ == Phase::kChunkEnd) {
    if (!line_.empty()) return fail("a chunk longer than it says");
    phase_ = Phase::kChunkSize;
    return;
  }
  if (phase_ == Phase::kTrailer) {
    if (line_.empty()) phase_ = Phase::kDone;
    return;
  }
  const auto [at, code] =
      std::from_chars(line_.data(), line_.data() + line_.size(), remaining_, 16);
  if (code != std::errc() || at != line_.data() + line_.size()) return fail("a broken chunk size");
  phase_ = remaining_ == 0 ? Phase::kTrailer : Phase::kChunkData;
}

void ResponseScanner::scan_body(std::string_view piece) {
  if (keep_body_) body_ += piece;
  if (!event_stream_) return;
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    event_line_ += piece.substr(0, end);
    if (end == std::string_view::npos) {
      if (event_line_.size() > kMaxLine) fail("an event without an end");
      return;
    }
    scan_event_line();
    event_line_.clear();
    piece.remove_prefix(end + 1);
  }
}

void ResponseScanner::scan_event_line() {
  if (event_line_.ends_with('\r')) event_line_.pop_back();
  if (event_line_.empty()) {
    if (in_event_) ++num_events_;
    in_event_ = false;
  } else if (event_line_.front() == ':') {
    ++num_comments_;
  } else if (event_line_.starts_with("data:")) {
    std::string_view data = std::string_view(event_line_).substr(5);
    if (data.starts_with(' ')) data.remove_prefix(1);
    if (data == "[DONE]") {
      stream_done_ = true;
    } else if (data.starts_with("{\"error\"")) {
      ++num_errors_;
      last_event_ = data;
    } else {
      in_event_ = true;
      last_event_ = data;
    }
  }
}

std::int64_t ResponseScanner::completion_tokens() const {
  constexpr std::string_view kKey = "\"completion_tokens\":";
  const std::string& text = event_stream_ ? last_event_ : body_;
  const std::size_t at = text.find(kKey);
  if (at == std::string::npos) return -1;
  std::int64_t count = -1;
  const std::size_t begin = text.find_first_not_of(' ', at + kKey.size());
  if (begin != std::string::npos) {
    std::from_chars(text.data() + begin, text.data() + text.size(), count);
  }
  return count;
}

void ResponseScanner::fail(std::string message) {
  phase_ = Phase::kError;
  error_ = std::move(message);
}

}  // namespace quire::load
