// The files of the page, which the build puts into the program (cmake/QuireEmbed.cmake), so that a
// server needs nothing but itself to show it.
#pragma once

#include <span>
#include <string_view>

namespace quire {

struct EmbeddedFile {
  std::string_view name;     // "app.js"
  std::string_view tag;      // changes with the content
  std::string_view content;  // lives as long as the program
};

std::span<const EmbeddedFile> embedded_files();

}  // namespace quire
