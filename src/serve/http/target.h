// The target of a request line: a path and a query, percent-decoded; behind a scheme and an
// authority where the client writes them (absolute-form, as to a proxy).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct HttpTarget {
  std::optional<std::string> authority;  // as it was written; nullopt: the target is a path
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
};

// nullopt for what is neither an absolute path nor a URL of http or https, a broken escape, a
// control character or NUL, or a path with a segment "." or "..". Whether the authority is well
// formed is not looked at (authority.h).
std::optional<HttpTarget> parse_target(std::string_view target);

}  // namespace quire
