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

// `text` in lines of at most `width` columns, broken at spaces; a word that is longer stands alone.
// Its own line breaks stay.
std::vector<std::string> wrap_words(const std::string& text, std::size_t width);

}  // namespace quire
