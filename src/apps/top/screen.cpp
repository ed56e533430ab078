#include "apps/top/screen.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <system_error>
#include <termios.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

// The alternate screen without a cursor, and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

Status io_error(std::string_view what) {
  return Status::io_error(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

Status write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("cannot write to the terminal");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

struct Screen::State {
  termios before{};
  int wake_fd = -1;
};

Screen::Screen(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Screen>> Screen::open() {
  auto state = std::make_unique<State>();
  if (::isatty(STDOUT_FILENO) == 0 || ::tcgetattr(STDIN_FILENO, &state->before) != 0) {
    return io_error("no terminal");
  }
  state->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state->wake_fd < 0) return io_error("cannot make an event");
  termios raw = state->before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);  // Ctrl-C is a key here
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  std::unique_ptr<Screen> screen(new Screen(std::move(state)));
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return io_error("cannot set the terminal");
  QUIRE_RETURN_IF_ERROR(write_all(kEnter));
  return screen;
}

Screen::~Screen() {
  (void)write_all(kLeave);
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &state_->before);
  (void)::close(state_->wake_fd);
}

Status Screen::show(std::span<const std::string> lines) {
  // Lines are written over the old ones and their rests cleared, which does not flicker.
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += lines[i];
    text += "\x1b[K";
  }
  text += "\x1b[J";
  return write_all(text);
}

Screen::Wake Screen::wait(int timeout_ms) {
  std::array<pollfd, 2> fds = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                {.fd = state_->wake_fd, .events = POLLIN, .revents = 0}}};
  if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return Wake::kOther;
  if (fds[1].revents != 0) {
    std::uint64_t count = 0;
    (void)!::read(state_->wake_fd, &count, sizeof(count));
  }
  if (fds[0].revents == 0) return Wake::kOther;
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) return Wake::kQuit;
  const std::string_view typed(keys.data(), static_cast<std::size_t>(count));
  return typed.find_first_of(std::string_view("qQ\x03", 3)) == std::string_view::npos ? Wake::kOther
                                                                                      : Wake::kQuit;
}

void Screen::wake() {
  const std::uint64_t one = 1;
  (void)!::write(state_->wake_fd, &one, sizeof(one));
}

}  // namespace quire
