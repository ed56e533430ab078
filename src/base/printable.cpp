#include "base/printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::string_view kDots = "...";

bool is_direction_mark(std::uint32_t code) {
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x200e || code == 0x200f || code == 0x061c;
}

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
  if (code == 0x2028 || code == 0x2029) return 0;  // new lines
  if (is_direction_mark(code)) return 0;           // they reorder what stands around them
  return size;
}

}  // namespace

std::string printable(std::string_view raw, std::size_t max_bytes) {
  constexpr std::size_t kEscapeBytes = 4;  // \xNN
  std::string shown;
  shown.reserve(std::min(raw.size(), max_bytes));
  std::size_t fits = 0;  // bytes of `shown` behind which the dots still fit
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t size = shown_character_bytes(raw.substr(at));
    if (shown.size() + kDots.size() <= max_bytes) fits = shown.size();
    if (shown.size() + (size == 0 ? kEscapeBytes : size) > max_bytes) {
      shown.resize(fits);
      return shown.append(kDots);
    }
    if (size == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}",
                     static_cast<unsigned>(static_cast<unsigned char>(raw[at])));
    } else {
      shown += raw.substr(at, size);
    }
    at += std::max<std::size_t>(size, 1);
  }
  return shown;
}

}  // namespace quire
