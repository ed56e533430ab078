#include "serve/http/field_text.h"

#include <algorithm>

namespace quire {
namespace {

char lower_letter(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); }

}  // namespace

std::string shown(std::string_view text, std::size_t max_bytes) {
  std::string out(text.substr(0, max_bytes));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::string clipped(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xC0) == 0x80) --max_bytes;
  return std::string(text.substr(0, max_bytes));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> split_members(std::string_view text) {
  std::vector<std::string_view> members;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view member = trimmed(text.substr(0, comma));
    if (!member.empty()) members.push_back(member);
    if (comma == std::string_view::npos) return members;
    text.remove_prefix(comma + 1);
  }
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower_letter, lower_letter);
}

}  // namespace quire
