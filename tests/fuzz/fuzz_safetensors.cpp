// Any bytes: parse_safetensors answers with tensors that cover what follows the header exactly, or
// with an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = quire::parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors.ok()) {
    if (tensors.status().message().empty()) std::abort();
    return 0;
  }
  std::uint64_t end = 0;
  for (const quire::TensorInfo& tensor : *tensors) {
    if (tensor.data.size() > size || tensor.file_offset > size - tensor.data.size()) std::abort();
    if (end != 0 && !tensor.data.empty() && tensor.file_offset != end) std::abort();
    if (!tensor.data.empty()) end = tensor.file_offset + tensor.data.size();
  }
  if (end != 0 && end != size) std::abort();
  return 0;
}
