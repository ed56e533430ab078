#include "serve/http/router.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"

namespace quire {
namespace {

// What OpenAI's routes begin with; many clients leave it out.
constexpr std::string_view kVersion = "/v1";

// The next segment of a path that starts with '/', which is removed.
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
    if (expected.ends_with("...}")) {
      const std::string_view rest = path.substr(1);
      if (rest.empty()) return false;
      params.emplace_back(expected.substr(1, expected.size() - 5), rest);
      return true;
    }
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

std::string Router::plain_path(std::string_view path) const {
  if (!root_path_.empty() && path.starts_with(root_path_) &&
      path.substr(root_path_.size()).starts_with('/')) {
    path.remove_prefix(root_path_.size());
  }
  std::string plain;
  for (const char c : path) {
    if (c != '/' || !plain.ends_with('/')) plain.push_back(c);
  }
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  if (!path.starts_with('/')) return {};
  const std::string plain = plain_path(path);
  Match match = match_plain(method, plain);
  if (match.route != nullptr || !match.allowed_methods.empty()) return match;
  return match_plain(method, std::string(kVersion) + plain);
}

std::optional<std::string> Router::nearest_to(std::string_view path) const {
  std::vector<std::string> candidates;
  for (const Route& route : routes_) {
    if (route.pattern.find('{') == std::string::npos) candidates.push_back(route.pattern);
  }
  const std::string plain = plain_path(path);
  auto found = nearest(plain, candidates);
  return found ? found : nearest(std::string(kVersion) + plain, candidates);
}

Router::Match Router::match_plain(std::string_view method, std::string_view path) const {
  Match match;
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
