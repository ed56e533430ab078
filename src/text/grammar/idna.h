// Labels of internationalized host names: RFC 5891 (section 4.2), 5892 (which code points, and
// where) and 5893 (text from right to left), with utf8proc's Unicode and the tables of
// idna_tables.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// What a label demands of the others of its name: in one that has a label from right to left, all
// have to keep RFC 5893's rule.
enum class LabelDirection : std::uint8_t {
  kLeftToRight,  // it keeps the rule
  kRightToLeft,  // it has characters from right to left, and keeps the rule
  kUnruly        // it does not: no label from right to left may stand beside it
};

// Nullopt where `label` is no U-label: a code point that is not allowed, or not at its place, a
// mark first, hyphens at an end or third and fourth, no NFC, directions that do not go together.
// At least one code point has to be none of ASCII; letters of ASCII are small ones.
std::optional<LabelDirection> check_u_label(std::u32string_view label);

}  // namespace quire
