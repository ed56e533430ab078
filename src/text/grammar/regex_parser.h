// The syntax of regular expressions (regex.h). Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/regex.h"
#include "text/grammar/source_cursor.h"

namespace quire {

struct RegexNode {
  enum class Kind : std::uint8_t {
    kChars,        // one of `set`
    kSequence,     // `children`
    kAlternative,  // one of `children`
    kRepeat,       // children[0], `min` to `max` times
    kBegin,        // the text begins here
    kEnd,          // the text ends here
    kLookAhead,    // children[0] follows here, or must not (`negative`)
  };
  static constexpr std::uint32_t kNoMax = UINT32_MAX;

  Kind kind = Kind::kSequence;
  bool negative = false;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::size_t position = 0;  // in the pattern
  CharSet set = {};
  std::vector<std::size_t> children = {};  // indices of nodes
};

struct RegexTree {
  std::vector<RegexNode> nodes;
  std::size_t root = 0;
};

// `cursor` stands at the pattern's beginning, and at its end afterwards.
Result<RegexTree> parse_regex(SourceCursor& cursor, const RegexOptions& options,
                              const GrammarLimits& limits);

}  // namespace quire
