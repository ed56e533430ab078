#include "serve/http/router.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// The next segment of a path that starts with '/', which is taken off.
std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

bool matches(std::string_view pattern, std::string_view path,
             std::vector<std::pair<std::string, std::string>>& params) {
  params.clear();
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = take_segment(pattern);
    const std::string_view found = take_segment(path);
    if (expected.starts_with('{')) {
      if (found.empty()) return false;
      params.emplace_back(expected.substr(1, expected.size() - 2), found);
    } else if (expected != found) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

}  // namespace

void Router::add(Route route) { routes_.push_back(std::move(route)); }

void Router::add_all(std::vector<Route> routes) {
  for (Route& route : routes) routes_.push_back(std::move(route));
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  Match match;
  if (!path.starts_with('/')) return match;
  std::vector<std::pair<std::string, std::string>> params;
  for (const Route& route : routes_) {
    if (!matches(route.pattern, path, params)) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      match.route = &route;
      match.path_params = std::move(params);
      return match;
    }
    match.allowed_methods.push_back(route.method);
  }
  return match;
}

}  // namespace quire
