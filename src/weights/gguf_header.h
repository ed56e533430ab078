// The header of a GGUF file of which only the beginning is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace quire {

// What the beginning of a GGUF file says of the rest.
struct GgufHeader {
  std::uint64_t bytes = 0;  // of keys and list of tensors, from the file's start
  // Where the tensors lie whose numbers belong to the model's specification: factors of rotary
  // positions. Offset and bytes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> specification = {};
};

// Of a file of `file_bytes` that begins with `beginning`; nullopt where that ends before the header
// does. Errors: those of GgufFile::open for what is wrong in a header, or with places of tensors.
Result<std::optional<GgufHeader>> read_gguf_header(std::span<const std::byte> beginning,
                                                   std::uint64_t file_bytes,
                                                   const std::string& name);

}  // namespace quire
