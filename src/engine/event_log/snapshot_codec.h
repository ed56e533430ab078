// A scheduler's snapshot as bytes, the same bytes for the same state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/scheduler_snapshot.h"

namespace quire {

void encode_snapshot(const SchedulerSnapshot& snapshot, std::vector<std::uint8_t>& out);
// kInvalidArgument where the bytes are none; whether the state can be is for Scheduler::restore().
Result<SchedulerSnapshot> decode_snapshot(std::span<const std::uint8_t> bytes);

// Which parts of two states differ: "running requests, free blocks"; empty if none does.
std::string snapshot_difference(const SchedulerSnapshot& a, const SchedulerSnapshot& b);

}  // namespace quire
