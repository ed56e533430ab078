#include "apps/chat/view.h"

#include <unistd.h>

#include <fmt/format.h>

#include "apps/terminal.h"
#include "text/utf8.h"

namespace quire {
namespace {

bool is_control(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

}  // namespace

std::string without_control_characters(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (is_control(c.code)) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned>(c.code));
    } else {
      shown += text.substr(i, c.size);
    }
    i += c.size;
  }
  return shown;
}

Result<ChatView> ChatView::create() {
  const bool interactive = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  return ChatView(std::move(output), interactive, use_color(ColorMode::kAuto));
}

Status ChatView::answer(std::string_view piece) {
  return output_.write(interactive_ ? without_control_characters(piece) : std::string(piece));
}

Status ChatView::end_answer() { return output_.write("\n"); }

Status ChatView::note(std::string_view text) {
  if (!interactive_) {
    fmt::print(stderr, "{}\n", text);
    return {};
  }
  const std::string shown = without_control_characters(text);
  return output_.write(color_ ? fmt::format("\x1b[2m{}\x1b[0m\n", shown) : shown + "\n");
}

Status ChatView::error(const Status& status) {
  return note(fmt::format("error: {}", status.to_string()));
}

}  // namespace quire
