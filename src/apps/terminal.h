// Colour on terminals: when to use it, and how wide a line may be.
#pragma once

#include <string>

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

}  // namespace quire
