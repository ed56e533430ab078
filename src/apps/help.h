// What --help shows: two examples first, then how the command is called and its flags, wrapped at
// the terminal's width.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace quire {

struct CommandExample {
  std::string line;     // "quire serve --port 9000"
  std::string meaning;  // what it does, in a few words
};

// Gives `app` its --help, with these examples.
void set_help(CLI::App& app, std::array<CommandExample, 2> examples);

// A line of a table: a name and what it means.
struct HelpRow {
  std::string name;
  std::string text;
};

// The lines in two columns, the second wrapped at `width`.
std::string help_rows(const std::vector<HelpRow>& rows, std::size_t width);

// `text` in lines of at most `width` columns, broken at spaces; a word that is longer stands alone.
// Lines that fit stay as they are.
std::vector<std::string> wrap_words(const std::string& text, std::size_t width);

}  // namespace quire
