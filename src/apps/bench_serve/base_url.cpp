#include "apps/bench_serve/base_url.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace quire::bench {
namespace {

Status no_url(std::string_view text, std::string_view reason) {
  return Status::invalid_argument(fmt::format("--base-url {}: {}", text, reason),
                                  "write it as http://127.0.0.1:8000");
}

bool is_port(std::string_view text) {
  unsigned value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 65535;
}

}  // namespace

Result<BaseUrl> parse_base_url(std::string_view text) {
  BaseUrl url;
  std::string_view rest = text;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    url.tls = true;
    rest.remove_prefix(8);
  } else {
    return no_url(text, "it begins with neither http:// nor https://");
  }
  const bool plain = std::ranges::all_of(
      rest, [](char c) { return c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '@'; });
  if (!plain) return no_url(text, "spaces, user names, queries and fragments do not belong there");

  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);

  std::string_view host = authority;
  std::string_view port = url.tls ? "443" : "80";
  const bool bracketed = authority.starts_with('[');
  const std::size_t end = bracketed ? authority.find(']') : authority.find(':');
  if (bracketed && end == std::string_view::npos) return no_url(text, "\"[\" without \"]\"");
  if (bracketed) host = authority.substr(1, end - 1);
  const std::size_t colon = bracketed ? end + 1 : end;
  if (colon < authority.size()) {
    if (!bracketed) host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
    if (authority[colon] != ':' || !is_port(port)) {
      return no_url(text, "what follows the host is no port");
    }
  }
  if (host.empty()) return no_url(text, "there is no host");
  url.host = host;
  url.port = port;
  url.path = path;
  url.authority = authority;
  return url;
}

std::string BaseUrl::target(std::string_view route) const {
  std::string_view base = path;
  if (base.ends_with("/v1")) base.remove_suffix(3);
  return fmt::format("{}{}", base, route);
}

std::string BaseUrl::text() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", authority, path);
}

}  // namespace quire::bench
