// Unicode facts that RFC 5892's rules need and utf8proc does not have. Written by
// scripts/goldens/idna.py. Internal to src/text/grammar.
#pragma once

#include <span>

#include "text/grammar/char_set.h"

namespace quire {

// Sorted. Joining_Type L or D, and R or D.
std::span<const CharRange> joins_next();
std::span<const CharRange> joins_previous();
std::span<const CharRange> script_greek();
std::span<const CharRange> script_hebrew();
std::span<const CharRange> script_of_japanese();  // Han, Hiragana, Katakana

}  // namespace quire
