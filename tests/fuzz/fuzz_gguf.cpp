// Any bytes: GgufFile::parse answers with a file whose tensors lie inside them, or with an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "weights/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = quire::GgufFile::parse(bytes, "fuzz.gguf");
  if (!file.ok()) {
    if (file.status().message().empty()) std::abort();
    return 0;
  }
  for (const quire::TensorInfo& tensor : (*file)->tensors()) {
    if (tensor.data.size() > size || tensor.file_offset > size - tensor.data.size()) std::abort();
    if ((*file)->find(tensor.name) != &tensor) std::abort();
  }
  for (const quire::GgufEntry& entry : (*file)->metadata().entries()) {
    if (quire::gguf_value_text(entry).size() > 400) std::abort();
    (void)(*file)->find_int(entry.key);
    (void)(*file)->find_double(entry.key);
    (void)(*file)->find_bool(entry.key);
    (void)(*file)->find_string(entry.key);
    (void)(*file)->find_strings(entry.key);
    (void)(*file)->find_floats(entry.key);
    (void)(*file)->find_ints(entry.key);
  }
  return 0;
}
