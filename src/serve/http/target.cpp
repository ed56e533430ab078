#include "serve/http/target.h"

#include <algorithm>
#include <charconv>

#include "serve/http/field_text.h"

namespace quire {
namespace {

constexpr std::size_t kMaxQueryParams = 64;

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      unsigned value = 0;
      const char* first = text.data() + i + 1;
      const auto [end, error] = std::from_chars(first, first + 2, value, 16);
      if (error != std::errc() || end != first + 2) return std::nullopt;
      c = static_cast<char>(value);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

bool has_dot_segment(std::string_view path) {
  std::size_t begin = 1;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment == "." || segment == "..") return true;
    begin = end + 1;
  }
  return false;
}

// Of "http://" or "https://" in front; 0 if there is none.
std::size_t scheme_bytes(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equal_ignoring_case(target.substr(0, scheme.size()), scheme)) return scheme.size();
  }
  return 0;
}

}  // namespace

std::optional<HttpTarget> parse_target(std::string_view target) {
  HttpTarget parsed;
  target = target.substr(0, target.find('#'));
  if (const std::size_t scheme = scheme_bytes(target); scheme > 0) {
    target.remove_prefix(scheme);
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    parsed.authority = std::string(target.substr(0, end));
    target.remove_prefix(end);
  } else if (!target.starts_with('/')) {
    return std::nullopt;
  }
  const std::size_t mark = target.find('?');
  auto path = decode(target.substr(0, mark), false);
  if (!path || has_dot_segment(*path)) return std::nullopt;
  parsed.path = path->empty() ? "/" : *std::move(path);
  std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    if (parsed.query.size() == kMaxQueryParams) return std::nullopt;
    const std::size_t equals = pair.find('=');
    auto name = decode(pair.substr(0, equals), true);
    auto value = decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    parsed.query.emplace_back(*std::move(name), *std::move(value));
  }
  return parsed;
}

}  // namespace quire
