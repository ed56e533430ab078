// UTF-8 as tokenizers need it: decoding one character at a time from bytes that may be invalid, and
// repairing a stream of bytes into valid text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// One character, or, where the bytes are invalid, `size` bytes to replace as a whole: the longest
// prefix of a valid sequence, or one byte (the Unicode Standard 3.9, "maximal subparts").
struct Utf8Char {
  char32_t code = 0xFFFD;
  std::uint8_t size = 1;
  bool valid = false;
  bool truncated = false;  // invalid, but only because the bytes end too early
};

// Decodes at `position` < text.size(). Surrogates and overlong forms are invalid.
Utf8Char decode_utf8(std::string_view text, std::size_t position);

// The number of bytes from `position` that form one symbol: a valid character, or one stray byte.
inline std::size_t symbol_size(std::string_view text, std::size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) return 1;
  const Utf8Char c = decode_utf8(text, position);
  return c.valid ? c.size : 1;
}

bool is_valid_utf8(std::string_view text);

// Turns a stream of bytes into valid UTF-8. An unfinished character is kept back (at most 3 bytes)
// until the bytes that follow decide it.
class Utf8Repairer {
 public:
  // What replaces an invalid sequence: one U+FFFD, or one for each of its bytes (as decoders of
  // byte-fallback tokens do).
  enum class Replace : std::uint8_t { kSequence, kEachByte };

  explicit Utf8Repairer(Replace replace) : replace_(replace) {}

  // Appends to `out` the text that `bytes` completes.
  void append(std::string_view bytes, std::string& out);
  // Ends the stream: appends replacements for an unfinished character.
  void flush(std::string& out);

 private:
  void replace_bytes(std::size_t count, std::string& out) const;

  std::string pending_;
  Replace replace_;
};

}  // namespace quire
