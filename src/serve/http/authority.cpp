#include "serve/http/authority.h"

#include <algorithm>
#include <string>

#include <boost/asio/ip/address_v6.hpp>

namespace quire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// A registered name or an IPv4 address.
bool valid_name(std::string_view name) {
  constexpr std::string_view kOther = "-._~!$&'()*+,;=";
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '%') {
      if (i + 2 >= name.size() || !is_hex(name[i + 1]) || !is_hex(name[i + 2])) return false;
      i += 2;
    } else if (!is_letter(name[i]) && !is_digit(name[i]) &&
               kOther.find(name[i]) == std::string_view::npos) {
      return false;
    }
  }
  return !name.empty();
}

bool valid_ipv6(std::string_view address) {
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(std::string(address), error);
  return !error && address.find('\0') == std::string_view::npos;
}

// "" or ":8000".
bool valid_port(std::string_view text) {
  constexpr std::size_t kMaxDigits = 5;
  if (text.empty()) return true;
  if (text.front() != ':') return false;
  text.remove_prefix(1);
  return text.size() <= kMaxDigits && std::ranges::all_of(text, is_digit);
}

}  // namespace

bool valid_authority(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    return end != std::string_view::npos && valid_ipv6(text.substr(1, end - 1)) &&
           valid_port(text.substr(end + 1));
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  return valid_name(text.substr(0, colon)) && valid_port(text.substr(colon));
}

bool valid_origin(std::string_view text) {
  if (text == "null") return true;
  const std::size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0 || !is_letter(text.front())) return false;
  const bool scheme = std::ranges::all_of(text.substr(0, end), [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
  const std::string_view authority = text.substr(end + 3);
  return scheme && (authority.empty() || valid_authority(authority));
}

}  // namespace quire
