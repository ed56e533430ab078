// Terminals: when to use colour, how wide a line may be, and what text may not do there.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace quire {

enum class ColorMode { kAuto, kAlways, kNever };

// Adds --color auto|always|never.
void add_color_option(CLI::App& app, ColorMode& mode);

// Whether standard output is to have colour: under kAuto on a terminal, unless NO_COLOR is set
// (https://no-color.org).
bool use_color(ColorMode mode);

// Columns of standard output's terminal, 80 elsewhere.
int terminal_width();
// Its lines, 24 elsewhere.
int terminal_height();

// `text` with control characters other than newlines and tabs written as \xNN. It must be UTF-8.
std::string without_control_characters(std::string_view text);

}  // namespace quire
