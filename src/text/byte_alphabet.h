// GPT-2's alphabet: one printable character for each byte, so that byte-level tokens can be
// published as text. Printable Latin-1 characters stand for themselves, the other 68 bytes for
// U+0100 and on, in order (Radford et al. 2019, "Language Models are Unsupervised Multitask
// Learners").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The character (UTF-8) that stands for `byte`.
std::string_view byte_to_symbol(std::uint8_t byte);

// The bytes that a published token stands for; nullopt if a character is not of the alphabet.
std::optional<std::string> symbols_to_bytes(std::string_view symbols);

// The byte that a token of byte fallback names, "<0xNN>"; nullopt for any other text.
std::optional<std::uint8_t> parse_byte_token(std::string_view text);

}  // namespace quire
