#include "base/sha256.h"

#include <openssl/sha.h>

namespace quire {

std::array<std::uint64_t, 4> sha256(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 4> digest;
  static_assert(sizeof(digest) == SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace quire
