#include "weights/printable.h"

#include <cstdint>
#include <iterator>

#include <fmt/format.h>

namespace quire {
namespace {

// Bytes of the character that `text` begins with; 0 if it begins with none that may be shown.
std::size_t shown_character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  std::uint32_t code = lead & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};  // 0x80..0x9f are controls
  if (code < kSmallest[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view raw, std::size_t max_bytes) {
  std::string shown;
  std::size_t at = 0;
  while (at < raw.size()) {
    const std::size_t size = shown_character_bytes(raw.substr(at));
    const std::size_t step = size == 0 ? 1 : size;
    if (at + step > max_bytes) return shown + "...";
    if (size == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}",
                     static_cast<unsigned>(static_cast<unsigned char>(raw[at])));
    } else {
      shown += raw.substr(at, size);
    }
    at += step;
  }
  return shown;
}

}  // namespace quire
