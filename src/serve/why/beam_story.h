// What a beam search has come to, in words.
#pragma once

#include "engine/api.h"

namespace quire {

// {"width", "live", "tokens", "finished", "forks", "because"}, and where they are known
// "best_score", "worst_score" of what is finished, "best_reachable" by a beam that goes on, and
// once it is over "end".
json::object beams_json(const BeamReport& report);

}  // namespace quire
