// The law of a request's account: what it says of its life is all of its life.
#pragma once

#include <string>

#include "core/scheduler.h"

namespace quire {

// Of a request that has ended, at `now`: its spans follow one another without a gap and say all
// that was computed for it; and it waited, computed again and found cached what it may. An empty
// string, or what is wrong.
std::string check_account(const Request& request, const SchedulerConfig& config, Instant now);

// All that a scheduler's steps have computed, of whom nobody is left.
std::string totals_error(const SchedulerStats& stats, std::int64_t num_scheduled_tokens,
                         std::int64_t num_drafts);

}  // namespace quire
