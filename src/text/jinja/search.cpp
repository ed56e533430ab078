#include "text/jinja/search.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace quire::jinja {

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // glibc's memmem is the two-way algorithm: linear time, constant space.
  const void* found =
      ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t rfind_bytes(std::string_view text, std::string_view needle, std::size_t end) {
  text = text.substr(0, end);
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.empty()) return text.size();
  const std::vector<std::size_t> last = find_all(text, needle, 1, true);
  return last.empty() ? std::string_view::npos : last[0];
}

std::vector<std::size_t> find_all(std::string_view text, std::string_view needle, std::size_t limit,
                                  bool from_right) {
  std::vector<std::size_t> out;
  if (needle.empty() || needle.size() > text.size()) return out;
  std::string reversed_text;
  std::string reversed_needle;
  if (from_right) {
    reversed_text.assign(text.rbegin(), text.rend());
    reversed_needle.assign(needle.rbegin(), needle.rend());
    text = reversed_text;
    needle = reversed_needle;
  }
  for (std::size_t at = 0; out.size() < limit;) {
    at = find_bytes(text, needle, at);
    if (at == std::string_view::npos) break;
    out.push_back(from_right ? text.size() - at - needle.size() : at);
    at += needle.size();
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace quire::jinja
