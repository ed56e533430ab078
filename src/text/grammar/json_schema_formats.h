// What `format` means, as regular languages, and host names besides (host_names.h). Sources: RFC
// 3339 (dates, times, durations in its appendix A), 5321 and 6531 (email), 1123 and 5890 (host
// names), 2673 and 4291 (IP addresses), 3986 and 3987 (URI, IRI), 4122 (UUID), 6570 (URI
// templates), 6901 (JSON pointers).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/json_schema_sets.h"

namespace quire {

// A format's texts, and their JSON spellings. The same two for all that ask.
struct FormatLanguage {
  std::shared_ptr<const DfaOnDemand> meant;
  std::shared_ptr<const DfaOnDemand> spelled;
  OpenTexts more;
  // Of what is valid it leaves out what no regular language is known to have.
  bool is_partial = false;
};

// Nullopt for a name that no draft gives a meaning; kUnimplemented for what is not kept.
Result<std::optional<FormatLanguage>> schema_format(std::string_view name);

}  // namespace quire
