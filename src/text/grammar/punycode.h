// Punycode (RFC 3492) with the parameters that its section 5 gives for domain names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The code points that `text` (what stands behind "xn--") encodes; nullopt where it is no encoding
// of any, or of ASCII alone. Letters of both cases are digits; those in front of the delimiter stay
// as they are.
std::optional<std::u32string> decode_punycode(std::string_view text);

// Of at most 64 code points, one of which at least is not ASCII.
std::string encode_punycode(std::u32string_view text);

}  // namespace quire
