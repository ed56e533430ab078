#include "text/utf8.h"

namespace quire {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

}  // namespace

// The Unicode Standard, table 3-7: the second byte's range depends on the first; the rest are
// 80..BF.
Utf8Char decode_utf8(std::string_view text, std::size_t position) {
  const unsigned char lead = byte_at(text, position);
  if (lead < 0x80) return {lead, 1, true, false};

  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  char32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {};
  }
  for (std::size_t i = 1; i < length; ++i) {
    const auto seen = static_cast<std::uint8_t>(i);
    if (position + i >= text.size()) return {0xFFFD, seen, false, true};
    const unsigned char byte = byte_at(text, position + i);
    if (byte < low || byte > high) return {0xFFFD, seen, false, false};
    code = (code << 6) | (byte & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code, static_cast<std::uint8_t>(length), true, false};
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (!c.valid) return false;
    i += c.size;
  }
  return true;
}

void Utf8Repairer::replace_bytes(std::size_t count, std::string& out) const {
  const std::size_t times = replace_ == Replace::kEachByte ? count : 1;
  for (std::size_t i = 0; i < times; ++i) out += kReplacement;
}

void Utf8Repairer::append(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, i);
    if (c.valid) {
      out += bytes.substr(i, c.size);
    } else if (c.truncated) {
      pending_ = bytes.substr(i);
      return;
    } else {
      replace_bytes(c.size, out);
    }
    i += c.size;
  }
}

void Utf8Repairer::flush(std::string& out) {
  if (!pending_.empty()) replace_bytes(pending_.size(), out);
  pending_.clear();
}

}  // namespace quire
