#include "serve/http/access.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <span>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string hex_digits(std::span<const unsigned char> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace

std::string_view host_without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

bool is_loopback_host(std::string_view host) {
  const std::string name = lower_case(host);
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(name, error);
  return !error && address.is_loopback();
}

bool is_loopback_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) {
      return is_loopback_host(host_without_port(origin.substr(scheme.size())));
    }
  }
  return false;
}

AccessPolicy::AccessPolicy(bool loopback, std::vector<std::string> allowed_hosts,
                           std::vector<std::string> allowed_origins,
                           const std::vector<std::string>& api_keys)
    : loopback_(loopback),
      allowed_hosts_(std::move(allowed_hosts)),
      allowed_origins_(std::move(allowed_origins)) {
  for (const std::string& key : api_keys) key_digests_.push_back(digest(key));
}

bool AccessPolicy::host_allowed(const HttpRequest& request) const {
  if (!loopback_ && allowed_hosts_.empty()) return true;
  const std::string* host = request.header("Host");
  if (host == nullptr) return false;
  const std::string name = lower_case(host_without_port(*host));
  if (loopback_ && is_loopback_host(name)) return true;
  return std::ranges::any_of(allowed_hosts_, [&](const std::string& allowed) {
    return allowed == "*" || lower_case(allowed) == name ||
           lower_case(allowed) == lower_case(*host);
  });
}

AccessPolicy::Origin AccessPolicy::classify_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("Origin");
  if (origin == nullptr) return Origin::kNone;
  const std::string* host = request.header("Host");
  const std::string name = lower_case(*origin);
  if (host != nullptr &&
      (name == "http://" + lower_case(*host) || name == "https://" + lower_case(*host))) {
    return Origin::kSame;
  }
  if (loopback_ && allowed_origins_.empty() && is_loopback_origin(name)) return Origin::kAllowed;
  const bool allowed = std::ranges::any_of(allowed_origins_, [&](const std::string& each) {
    return each == "*" || lower_case(each) == name;
  });
  return allowed ? Origin::kAllowed : Origin::kForeign;
}

// Digests are compared, for they have one length whatever the key's is.
std::optional<std::string> AccessPolicy::caller_of(const HttpRequest& request) const {
  if (key_digests_.empty()) return "";
  const std::string* header = request.header("Authorization");
  std::string_view key = header == nullptr ? std::string_view() : *header;
  const std::string_view scheme = "Bearer ";
  key = lower_case(key.substr(0, scheme.size())) == "bearer " ? key.substr(scheme.size())
                                                              : std::string_view();
  const std::string* other = request.header("X-Api-Key");
  const Digest* by_bearer = find(key);
  const Digest* by_own_header = find(other == nullptr ? std::string_view() : *other);
  const Digest* found = by_bearer != nullptr ? by_bearer : by_own_header;
  if (found == nullptr) return std::nullopt;
  return hex_digits(*found);
}

std::string AccessPolicy::caller_with(std::string_view key) { return hex_digits(digest(key)); }

const AccessPolicy::Digest* AccessPolicy::find(std::string_view key) const {
  const Digest given = digest(key);
  const Digest* found = nullptr;
  for (const Digest& each : key_digests_) {
    const bool equal = CRYPTO_memcmp(each.data(), given.data(), each.size()) == 0;
    found = equal ? &each : found;
  }
  return found;
}

AccessPolicy::Digest AccessPolicy::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

}  // namespace quire
