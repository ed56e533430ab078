// The segments that `quire replay` and `quire explain` are given, read through in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/event_log/replay.h"

namespace quire {

// `name` is one segment, or the name that --event-log was given, for all that are there. kNotFound
// where there is none.
Result<std::vector<std::filesystem::path>> event_log_files(const std::filesystem::path& name);

// What was found in the files besides their records: a torn end, lost records.
using ReplayNotes = std::vector<std::string>;

// Replays the files until their end, a difference, or until `stop`, asked after each record, says
// so. `progress(done, total)` is in bytes. Errors as SegmentReader::next(); what was replayed
// before stays in `replay`.
Status replay_files(const std::vector<std::filesystem::path>& files, Replay& replay,
                    ReplayNotes& notes, const std::function<bool()>& stop,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace quire
