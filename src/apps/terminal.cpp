#include "apps/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sys/ioctl.h>
#include <unistd.h>

namespace quire {

void add_color_option(CLI::App& app, ColorMode& mode) {
  static const std::map<std::string, ColorMode> kModes = {
      {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
  app.add_option_function<std::string>(
         "--color", [&mode](const std::string& name) { mode = kModes.at(name); },
         "Colour: auto (on a terminal), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->default_str("auto");
}

bool use_color(ColorMode mode) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<int>(size.ws_col, 20);
}

int terminal_height() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return 24;
  return std::max<int>(size.ws_row, 5);
}

}  // namespace quire
