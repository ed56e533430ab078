// Where a server is: what `--base-url` says.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace quire::bench {

struct BaseUrl {
  bool tls = false;
  std::string host;  // a name or an address, without the brackets of an IPv6 address
  std::string port;
  std::string path;       // before every route: empty, or "/some/path"
  std::string authority;  // host and port, as the header Host has them

  // The target of a request to `route` ("/v1/models"): a base that ends in /v1 counts as the one
  // before it, for both forms are in use.
  std::string target(std::string_view route) const;
  std::string text() const;
};

// http://host[:port][/path] or https://...; kInvalidArgument for anything else. User names, queries
// and fragments have no place here.
Result<BaseUrl> parse_base_url(std::string_view text);

}  // namespace quire::bench
