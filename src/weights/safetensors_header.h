// A safetensors file's JSON header, checked for what a JSON parser lets pass.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace quire {

// The header of the file `bytes` and where the tensors' data begins. Errors (kBadModel) name the
// file: too few bytes, a length beyond the file or the cap, text that is no JSON object, too many
// entries, a name twice.
struct SafetensorsHeader {
  json::object entries;
  std::uint64_t data_start = 0;
};
Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> bytes,
                                                  const std::string& file);

}  // namespace quire
