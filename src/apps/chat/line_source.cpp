#include "apps/chat/line_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kQuote = "\"\"\"";
constexpr std::string_view kPrompt = "> ";
constexpr std::string_view kMorePrompt = "... ";

Status too_long() {
  return Status::invalid_argument(
      fmt::format("a message may have at most {} bytes", LineSource::kMaxLineBytes));
}

class PlainLines final : public LineSource {
 public:
  Result<InputLine> read(const std::string& /*prompt*/) override {
    while (true) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) return take(end, end + 1);
      if (buffer_.size() > kMaxLineBytes) return too_long();
      std::array<char, 65536> piece;
      const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return Status::io_error("cannot read standard input: " +
                                std::generic_category().message(errno));
      }
      if (count > 0) {
        buffer_.append(piece.data(), static_cast<std::size_t>(count));
        continue;
      }
      if (buffer_.empty()) return InputLine{.kind = InputLine::Kind::kEnd, .text = {}};
      return take(buffer_.size(), buffer_.size());
    }
  }

 private:
  Result<InputLine> take(std::size_t length, std::size_t consumed) {
    std::string line = buffer_.substr(0, length);
    buffer_.erase(0, consumed);
    if (line.size() > kMaxLineBytes) return too_long();
    if (line.ends_with('\r')) line.pop_back();
    return InputLine{.kind = InputLine::Kind::kLine, .text = std::move(line)};
  }

  std::string buffer_;
};

// Reads lines on to `text` for as long as `wants_more` says of the latest one, which it may change.
// What ended it otherwise is left in `kind`.
template <typename WantsMore>
Status read_more(LineSource& source, UserInput& input, WantsMore wants_more) {
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(InputLine line, source.read(std::string(kMorePrompt)));
    input.kind = line.kind;
    if (line.kind == InputLine::Kind::kInterrupted) {
      input.typed = true;
      return {};
    }
    if (line.kind == InputLine::Kind::kEnd) {
      return Status::invalid_argument("the input ends in the middle of a message");
    }
    const bool more = wants_more(line.text);
    input.text += '\n';
    input.text += line.text;
    if (input.text.size() > LineSource::kMaxLineBytes) return too_long();
    if (!more) return {};
  }
}

// Takes a mark off the end of a text that has it.
bool take_end(std::string& text, std::string_view mark) {
  if (!text.ends_with(mark)) return false;
  text.resize(text.size() - mark.size());
  return true;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

Status read_quoted(LineSource& source, UserInput& input) {
  input.quoted = true;
  input.text.erase(0, kQuote.size());
  if (take_end(input.text, kQuote)) return {};
  const bool alone = input.text.empty();
  const auto wants_more = [](std::string& line) { return !take_end(line, kQuote); };
  QUIRE_RETURN_IF_ERROR(read_more(source, input, wants_more));
  // Marks on lines of their own add no lines to the message.
  if (alone && input.text.starts_with('\n')) input.text.erase(0, 1);
  take_end(input.text, "\n");
  return {};
}

}  // namespace

std::unique_ptr<LineSource> plain_lines() { return std::make_unique<PlainLines>(); }

Result<UserInput> read_input(LineSource& source) {
  QUIRE_ASSIGN_OR_RETURN(InputLine line, source.read(std::string(kPrompt)));
  UserInput input = {.kind = line.kind, .text = trimmed(line.text), .typed = line.typed};
  if (line.kind != InputLine::Kind::kLine) return input;
  if (input.text.starts_with(kQuote)) {
    QUIRE_RETURN_IF_ERROR(read_quoted(source, input));
  } else if (take_end(input.text, "\\")) {
    const auto wants_more = [](std::string& text) { return take_end(text, "\\"); };
    QUIRE_RETURN_IF_ERROR(read_more(source, input, wants_more));
  }
  if (!is_valid_utf8(input.text)) {
    return Status::invalid_argument("the message is not valid UTF-8");
  }
  if (input.kind == InputLine::Kind::kLine && !input.text.empty()) {
    const std::string_view quote = input.quoted ? kQuote : "";
    source.remember(fmt::format("{}{}{}", quote, input.text, quote));
  }
  return input;
}

}  // namespace quire
