#include "serve/http/target.h"

#include <charconv>

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

}  // namespace

std::optional<HttpTarget> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  HttpTarget parsed;
  auto path = decode(target.substr(0, mark), false);
  if (!path || has_dot_segment(*path)) return std::nullopt;
  parsed.path = *std::move(path);
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
