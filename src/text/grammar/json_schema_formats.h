// What `format` means, as regular languages. Sources: RFC 3339 (dates, times, durations in its
// appendix A), 5321 and 6531 (email), 1123 and 5890 (host names), 2673 and 4291 (IP addresses),
// 3986 and 3987 (URI, IRI), 4122 (UUID), 6570 (URI templates), 6901 (JSON pointers).
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace quire {

// Nullopt for a name that no draft gives a meaning.
Result<std::optional<Dfa>> schema_format(std::string_view name, GrammarBudget& budget);

}  // namespace quire
