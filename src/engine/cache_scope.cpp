#include "engine/cache_scope.h"

#include <span>
#include <string>

#include <fmt/format.h>

#include "base/sha256.h"

namespace quire {

CacheScope cache_scope_of(std::string_view owner, std::string_view salt) {
  if (owner.empty() && salt.empty()) return {};
  // The length in front says where one ends and the other begins.
  const std::string text = fmt::format("{} {}{}", owner.size(), owner, salt);
  const auto digest = sha256(std::as_bytes(std::span(text)));
  return {.high = digest[0], .low = digest[1]};
}

}  // namespace quire
