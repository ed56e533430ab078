// The target of a request line: a path and a query, percent-decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct HttpTarget {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
};

// nullopt for what is no absolute path, a broken escape, a control character or NUL, or a path
// with a segment "." or "..".
std::optional<HttpTarget> parse_target(std::string_view target);

}  // namespace quire
