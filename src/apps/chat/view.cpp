#include "apps/chat/view.h"

#include <unistd.h>

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

Status ChatView::answer(std::string_view piece) { return output_.write_text(piece); }

Status ChatView::end_answer() { return output_.write("\n"); }

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
