// Any bytes: parse_packed_file answers with an error, and parse_packed_index, which a checksum
// keeps most bytes from, with matrices inside the file or with an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weights/packed_file.h"

namespace {

void check(const quire::Result<quire::PackedIndex>& index, std::span<const std::byte> bytes) {
  if (!index.ok()) {
    if (index.status().message().empty()) std::abort();
    return;
  }
  for (const quire::PackedMatrix& matrix : index->matrices) {
    const auto* data = reinterpret_cast<const std::byte*>(matrix.data.data());
    if (data < bytes.data() || data + matrix.data.size() > bytes.data() + bytes.size()) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(quire::parse_packed_file(bytes, "fuzz.packed"), bytes);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(quire::parse_packed_index(text, bytes, "fuzz.packed"), bytes);
  return 0;
}
