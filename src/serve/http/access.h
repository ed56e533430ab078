// Who may call: the Host and Origin that a request names, and its key.
//
// A server bound to loopback is open to every page that the machine's browser shows: by a name that
// resolves to 127.0.0.1 (DNS rebinding) or by a cross-site request. So the host has to be one of
// the machine's own names, and an origin the server's own or another one of this machine, unless
// named by a flag.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace quire {

class AccessPolicy {
 public:
  // `loopback`: the server listens on a loopback address only.
  AccessPolicy(bool loopback, std::vector<std::string> allowed_hosts,
               std::vector<std::string> allowed_origins, const std::vector<std::string>& api_keys);

  bool host_allowed(const HttpRequest& request) const;

  enum class Origin { kNone, kSame, kAllowed, kForeign };
  Origin classify_origin(const HttpRequest& request) const;

  // HttpRequest::caller of whoever has this key: its SHA-256 digest as hex digits.
  static std::string caller_with(std::string_view key);
  // Who the request's key ("Authorization: Bearer KEY" or "X-Api-Key: KEY") says it is from:
  // caller_with() it; empty where no key is needed, nullopt where it brings none
  // that is known. Takes the same time whichever key is wrong, and wherever.
  std::optional<std::string> caller_of(const HttpRequest& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);
  const Digest* find(std::string_view key) const;  // nullptr: unknown

  bool loopback_;
  std::vector<std::string> allowed_hosts_;
  std::vector<std::string> allowed_origins_;
  std::vector<Digest> key_digests_;
};

// "example.org" of "example.org:8000", "::1" of "[::1]:80".
std::string_view host_without_port(std::string_view host);
// localhost, *.localhost, 127.0.0.0/8, ::1.
bool is_loopback_host(std::string_view host);
// A page of http or https from one of those: "http://localhost:3000".
bool is_loopback_origin(std::string_view origin);

}  // namespace quire
