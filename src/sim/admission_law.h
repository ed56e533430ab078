// Which requests a scheduler accepts, by a count of its own.
#pragma once

#include "core/scheduler.h"

namespace quire {

// Whether a request, of whose ids none is in use, is accepted now.
bool is_acceptable(const Scheduler& scheduler, const AddRequest& request);

}  // namespace quire
