#include "hub/url.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

namespace quire {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kUnreserved = "-._~";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kUnreserved.find(c) != kUnreserved.npos ||
                          kept.find(c) != kept.npos;
    if (is_plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (low) {
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string origin_of(std::string_view url) {
  std::string lower(url.substr(0, url.find_first_of("?#")));
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool secure = lower.starts_with("https://");
  if (!secure && !lower.starts_with("http://")) return {};
  const std::string scheme = secure ? "https://" : "http://";
  std::string host = lower.substr(scheme.size());
  host = host.substr(0, host.find('/'));
  if (const std::size_t at = host.rfind('@'); at != std::string::npos) host = host.substr(at + 1);
  if (host.empty()) return {};
  const std::size_t bracket = host.rfind(']');  // an IPv6 address has colons of its own
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return fmt::format("{}{}{}", scheme, host, has_port ? "" : secure ? ":443" : ":80");
}

std::string server_of(std::string_view url) {
  const std::string origin = origin_of(url);
  const std::string_view port = origin.starts_with("https:") ? ":443" : ":80";
  return origin.ends_with(port) ? origin.substr(0, origin.size() - port.size()) : origin;
}

}  // namespace quire
