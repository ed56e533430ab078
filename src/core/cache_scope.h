// Who may find whose cached prefixes: requests find what requests of their own scope have left, and
// nothing of others. A server makes one of an API key and a request's cache_salt; what cannot be
// made without these two cannot be looked for, so nobody learns from the time of an answer what
// another has asked.
#pragma once

#include <cstdint>

namespace quire {

// Half of a SHA-256 digest, or zero: the scope of those who say nothing.
struct CacheScope {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const CacheScope&) const = default;
};

}  // namespace quire
