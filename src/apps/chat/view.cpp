#include "apps/chat/view.h"

#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/help.h"
#include "apps/terminal.h"

namespace quire {
Result<ChatView> ChatView::create() {
  const bool interactive = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  return ChatView(std::move(output), interactive, use_color(ColorMode::kAuto));
}

std::unique_ptr<WaitMark> ChatView::waiting() const {
  return interactive_ ? std::make_unique<WaitMark>(color_) : nullptr;
}

Status ChatView::answer(std::string_view piece) {
  QUIRE_RETURN_IF_ERROR(end_reasoning("\n\n"));
  return output_.write_text(piece);
}

Status ChatView::reasoning(std::string_view piece) {
  if (!interactive_) return {};
  if (!std::exchange(in_reasoning_, true) && color_) {
    QUIRE_RETURN_IF_ERROR(output_.write("\x1b[2m"));
  }
  return output_.write_text(piece);
}

Status ChatView::end_reasoning(std::string_view gap) {
  if (!std::exchange(in_reasoning_, false)) return {};
  return output_.write(fmt::format("{}{}", color_ ? "\x1b[0m" : "", gap));
}

Status ChatView::end_answer() {
  QUIRE_RETURN_IF_ERROR(end_reasoning(""));
  return output_.write("\n");
}

Status ChatView::note(std::string_view text) {
  const std::string shown = without_control_characters(text);
  if (!interactive_) {
    fmt::print(stderr, "{}\n", shown);
    return {};
  }
  const std::string lines = fmt::format(
      "{}", fmt::join(wrap_words(shown, static_cast<std::size_t>(terminal_width())), "\n"));
  return output_.write(color_ ? fmt::format("\x1b[2m{}\x1b[0m\n", lines) : lines + "\n");
}

Status ChatView::error(const Status& status) {
  return note(fmt::format("error: {}", status.to_string()));
}

}  // namespace quire
