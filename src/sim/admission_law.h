// Which requests a scheduler takes, by a count of its own.
#pragma once

#include "core/scheduler.h"

namespace quire {

// Whether a request, of whose ids none is in use, is taken now.
bool is_acceptable(const Scheduler& scheduler, const AddRequest& request);

}  // namespace quire
