#include "engine/cache_scope.h"

#include <array>
#include <cstring>
#include <openssl/sha.h>
#include <string>

#include <fmt/format.h>

namespace quire {

CacheScope cache_scope_of(std::string_view owner, std::string_view salt) {
  if (owner.empty() && salt.empty()) return {};
  // The length in front says where one ends and the other begins.
  const std::string text = fmt::format("{} {}{}", owner.size(), owner, salt);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  CacheScope scope;
  std::memcpy(&scope.high, digest.data(), sizeof(scope.high));
  std::memcpy(&scope.low, digest.data() + sizeof(scope.high), sizeof(scope.low));
  return scope;
}

}  // namespace quire
