// Which handler answers which method and path, who may call it, and where it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/exchange.h"

namespace quire {

enum class RouteAccess : std::uint8_t {
  kKey,   // needs an API key where the server has any; the default, so that nothing is left open
  kOpen,  // health, version and the page's static files
};

struct Route {
  std::string method;  // "GET", "POST", "DELETE"
  // "/v1/batches/{id}/cancel"; a name in braces stands for one segment, "{name...}" at the end for
  // all that follow.
  std::string pattern;
  HttpHandler handler;
  RouteAccess access = RouteAccess::kKey;
  // True: the handler takes no time and runs on the I/O thread, also while all workers are busy.
  bool inline_handler = false;
  std::string content_type = "application/json";  // that a body of a POST has to have
  // Largest body; 0: the server's default.
  std::uint64_t max_body_bytes = 0;
  bool metered = false;  // has the engine work: counts against the key's limits (quotas/)
};

class Router {
 public:
  void add(Route route);
  void add_all(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;  // null: no such path, or not with this method
    std::vector<std::pair<std::string, std::string>> path_params;
    std::vector<std::string> allowed_methods;  // of the path, where only the method is wrong
  };
  // `path` is decoded. HEAD is matched as GET. Slashes that are doubled or at the end do not count,
  // nor does the root path in front, and what lies below /v1 is found without it, too.
  Match match(std::string_view method, std::string_view path) const;
  // The route, without names in braces, that is written nearest to a path which has none.
  std::optional<std::string> nearest_to(std::string_view path) const;

  // A prefix under which all routes are found, too: "/quire", for a proxy that leaves it in place.
  void set_root_path(std::string root_path) { root_path_ = std::move(root_path); }

  const std::vector<Route>& routes() const { return routes_; }

 private:
  Match match_plain(std::string_view method, std::string_view path) const;
  std::string plain_path(std::string_view path) const;

  std::vector<Route> routes_;
  std::string root_path_;
};

}  // namespace quire
