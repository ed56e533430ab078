#include "apps/chat/line_editor.h"

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <histedit.h>
#include <poll.h>
#include <system_error>
#include <unistd.h>

namespace quire {
namespace {

constexpr int kHistoryLines = 1000;

struct EditLineDeleter {
  void operator()(EditLine* editor) const { el_end(editor); }
};
struct HistoryDeleter {
  void operator()(History* history) const { history_end(history); }
};

class LineEditor final : public LineSource {
 public:
  explicit LineEditor(Interrupts& interrupts) : interrupts_(interrupts) {}

  Status start() {
    // libedit asks the locale what a character is; a terminal's are UTF-8 today, and so is all that
    // this program reads and writes.
    (void)std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_.reset(el_init("quire", stdin, stdout, stderr));
    history_.reset(history_init());
    if (editor_ == nullptr || history_ == nullptr) {
      return Status::internal("libedit does not start on this terminal");
    }
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, kHistoryLines);
    history(history_.get(), &event, H_SETUNIQUE, 1);
    el_set(editor_.get(), EL_CLIENTDATA, this);
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_SIGNAL, 1);  // a new width; back from being suspended
    el_set(editor_.get(), EL_HIST, &history, history_.get());
    el_set(editor_.get(), EL_PROMPT, &prompt_of);
    el_set(editor_.get(), EL_GETCFN, &read_character);
    return {};
  }

  Result<InputLine> read(const std::string& prompt) override {
    prompt_ = prompt;
    interrupted_ = false;
    read_error_ = 0;
    typed_ = false;
    interrupts_.begin_prompt();
    int count = 0;
    // Before the prompt is shown: what is typed at once must not meet the terminal's own editing.
    el_set(editor_.get(), EL_PREP_TERM, 1);
    const char* text = el_gets(editor_.get(), &count);
    interrupts_.end_prompt();
    if (text == nullptr || count <= 0) (void)std::fputs("\n", stdout);
    (void)std::fflush(stdout);
    if (interrupted_)
      return InputLine{.kind = InputLine::Kind::kInterrupted, .text = {}, .typed = typed_};
    if (read_error_ != 0) {
      return Status::io_error("cannot read the terminal: " +
                              std::generic_category().message(read_error_));
    }
    if (text == nullptr || count <= 0) {
      return InputLine{.kind = InputLine::Kind::kEnd, .text = {}};
    }
    std::string line(text, static_cast<std::size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    if (line.size() > kMaxLineBytes) {
      return Status::invalid_argument("the line is too long for a message");
    }
    return InputLine{.kind = InputLine::Kind::kLine, .text = std::move(line)};
  }

  void remember(const std::string& text) override {
    HistEvent event;
    history(history_.get(), &event, H_ENTER, text.c_str());
  }

 private:
  static LineEditor& self(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<LineEditor*>(data);
  }

  static char* prompt_of(EditLine* editor) { return self(editor).prompt_.data(); }

  // One character from the terminal: 1, or 0 where the line ends without one.
  static int read_character(EditLine* editor, wchar_t* character) {
    LineEditor& line = self(editor);
    std::mbstate_t state{};
    while (line.wait_for_key()) {
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) line.read_error_ = errno;
      if (count <= 0) return 0;
      const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-2)) continue;  // there is more of it to come
      if (used == static_cast<std::size_t>(-1)) *character = L'\uFFFD';
      return 1;
    }
    const LineInfoW* info = el_wline(editor);
    line.typed_ = info->lastchar != info->buffer;
    return 0;
  }

  // False where an interrupt came instead.
  bool wait_for_key() {
    std::array<pollfd, 2> sources = {pollfd{STDIN_FILENO, POLLIN, 0},
                                     pollfd{interrupts_.prompt_fd(), POLLIN, 0}};
    while (::poll(sources.data(), sources.size(), -1) < 0 && errno == EINTR) {
    }
    interrupted_ = (sources[1].revents & POLLIN) != 0;
    return !interrupted_;
  }

  Interrupts& interrupts_;
  std::unique_ptr<History, HistoryDeleter> history_;
  std::unique_ptr<EditLine, EditLineDeleter> editor_;  // uses the history
  std::string prompt_;
  bool interrupted_ = false;
  int read_error_ = 0;
  bool typed_ = false;
};

}  // namespace

Result<std::unique_ptr<LineSource>> edited_lines(Interrupts& interrupts) {
  auto editor = std::make_unique<LineEditor>(interrupts);
  QUIRE_RETURN_IF_ERROR(editor->start());
  return std::unique_ptr<LineSource>(std::move(editor));
}

}  // namespace quire
