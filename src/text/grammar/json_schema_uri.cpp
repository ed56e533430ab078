#include "text/grammar/json_schema_uri.h"

#include <vector>

namespace quire {
namespace {

struct SplitUri {
  std::string_view scheme;                    // without ':'
  std::optional<std::string_view> authority;  // without "//"
  std::string_view path;
  std::optional<std::string_view> query;  // without '?'
};

bool is_scheme_character(char c, bool first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (first) return letter;
  return letter || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

SplitUri split_uri(std::string_view text) {
  SplitUri uri;
  std::size_t end = 0;
  while (end < text.size() && is_scheme_character(text[end], end == 0)) ++end;
  if (end > 0 && end < text.size() && text[end] == ':') {
    uri.scheme = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    const std::size_t stop = text.find_first_of("/?");
    uri.authority = text.substr(0, stop);
    text = stop == std::string_view::npos ? std::string_view() : text.substr(stop);
  }
  const std::size_t query = text.find('?');
  uri.path = text.substr(0, query);
  if (query != std::string_view::npos) uri.query = text.substr(query + 1);
  return uri;
}

// RFC 3986, section 5.2.4.
std::string remove_dot_segments(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool rooted = path.starts_with('/');
  bool open = false;  // the path ends in a slash
  if (rooted) path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    const bool last = slash == std::string_view::npos;
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
      open = true;
    } else if (segment == ".") {
      open = true;
    } else {
      kept.push_back(segment);
      open = false;
    }
    if (last) break;
    path.remove_prefix(slash + 1);
  }
  std::string result = rooted ? "/" : "";
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) result += '/';
    result += kept[i];
  }
  if (open && !kept.empty()) result += '/';
  return result;
}

std::string join_uri(const SplitUri& uri, std::string_view path) {
  std::string result;
  if (!uri.scheme.empty()) result.append(uri.scheme).append(":");
  if (uri.authority) result.append("//").append(*uri.authority);
  result.append(path);
  if (uri.query) result.append("?").append(*uri.query);
  return result;
}

}  // namespace

UriParts split_fragment(std::string_view reference) {
  const std::size_t hash = reference.find('#');
  if (hash == std::string_view::npos) return {reference, std::nullopt};
  return {reference.substr(0, hash), reference.substr(hash + 1)};
}

std::string resolve_uri(std::string_view base, std::string_view reference) {
  reference = split_fragment(reference).address;
  base = split_fragment(base).address;
  if (reference.empty()) return std::string(base);
  SplitUri uri = split_uri(reference);
  if (!uri.scheme.empty()) {
    // What is no hierarchy ("urn:uuid:...") has no segments.
    const bool rooted = uri.authority || uri.path.starts_with('/');
    return join_uri(uri, rooted ? remove_dot_segments(uri.path) : std::string(uri.path));
  }
  const SplitUri from = split_uri(base);
  uri.scheme = from.scheme;
  if (uri.authority) return join_uri(uri, remove_dot_segments(uri.path));
  uri.authority = from.authority;
  if (uri.path.empty()) {
    if (!uri.query) uri.query = from.query;
    return join_uri(uri, from.path);
  }
  if (uri.path.starts_with('/')) return join_uri(uri, remove_dot_segments(uri.path));
  std::string merged;
  if (from.authority && from.path.empty()) {
    merged = "/";
  } else {
    const std::size_t slash = from.path.rfind('/');
    if (slash != std::string_view::npos) merged = from.path.substr(0, slash + 1);
  }
  merged.append(uri.path);
  return join_uri(uri, remove_dot_segments(merged));
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    int code = 0;
    for (std::size_t k = i + 1; k < i + 3; ++k) {
      if (k >= text.size()) return std::nullopt;
      const char c = text[k];
      int digit = -1;
      if (c >= '0' && c <= '9') digit = c - '0';
      if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
      if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
      if (digit < 0) return std::nullopt;
      code = code * 16 + digit;
    }
    result += static_cast<char>(code);
    i += 2;
  }
  return result;
}

}  // namespace quire
