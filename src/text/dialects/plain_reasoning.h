// Reasoning of answers whose content is constrained to a form of its own.
#pragma once

#include "text/dialects/dialect.h"

namespace quire {

// The same dialect where nothing behind reasoning is dropped: what looks like a mark there is part
// of the content. Lives as long as the program, as `dialect` does.
const ReasoningDialect* kept_content(const ReasoningDialect& dialect);

}  // namespace quire
