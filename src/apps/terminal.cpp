#include "apps/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/flag_values.h"
#include "text/utf8.h"

namespace quire {
namespace {

bool is_control(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

}  // namespace

void add_color_option(CLI::App& app, ColorMode& mode) {
  static const std::map<std::string, ColorMode> kModes = {
      {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
  app.add_option_function<std::string>(
         "--color", [&mode](const std::string& name) { mode = kModes.at(name); },
         "When to use colour; auto: on a terminal")
      ->check(one_of({"auto", "always", "never"}))
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

}  // namespace quire
