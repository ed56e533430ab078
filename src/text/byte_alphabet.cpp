#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace quire {

namespace {

constexpr std::size_t kSymbols = 256 + 68;  // the alphabet lies in U+0021..U+0143

struct Alphabet {
  std::array<std::string, 256> symbol_of_byte;
  std::array<std::int16_t, kSymbols> byte_of_code;  // -1 if not of the alphabet
};

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

const Alphabet& alphabet() {
  static const Alphabet table = [] {
    Alphabet t;
    t.byte_of_code.fill(-1);
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned code = stands_for_itself(byte) ? byte : next++;
      t.byte_of_code[code] = static_cast<std::int16_t>(byte);
      std::string& symbol = t.symbol_of_byte[byte];
      if (code < 0x80) {
        symbol = static_cast<char>(code);
      } else {
        symbol = {static_cast<char>(0xC0u | (code >> 6)), static_cast<char>(0x80u | (code & 0x3F))};
      }
    }
    return t;
  }();
  return table;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string_view byte_to_symbol(std::uint8_t byte) { return alphabet().symbol_of_byte[byte]; }

std::optional<std::string> symbols_to_bytes(std::string_view symbols) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size();) {
    // A vocabulary is nearly all ASCII, and its reading is most of a small model's start.
    const auto lead = static_cast<unsigned char>(symbols[i]);
    const Utf8Char c =
        lead < 0x80 ? Utf8Char{.code = lead, .valid = true} : decode_utf8(symbols, i);
    if (!c.valid || c.code >= kSymbols) return std::nullopt;
    const std::int16_t byte = table.byte_of_code[c.code];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += c.size;
  }
  return bytes;
}

std::optional<std::uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_value(text[3]);
  const int low = hex_value(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

}  // namespace quire
