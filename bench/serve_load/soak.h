// Everything at once, for long: whether anything is left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "serve_load/scenarios.h"
#include "serve_load/target.h"

namespace quire::load {

// For `shape.seconds`, rounds of `shape.clients` of every kind: streams, whole answers, many
// prompts with several outputs, embeddings, clients that go away, that read a byte now and then,
// and requests that are refused; beside each round a batch of /v1/batches, some of which are
// cancelled. Then, with nobody asking any more, the laws: each answer had the status that it should
// have; no block leaked, none used; prompt tokens and requests add up; no descriptor and no thread
// more than after the first round; and, in a run of more than twice kSettlingSeconds, resident
// memory at most kMaxGrowthBytes larger in the last kSettlingSeconds than in the first. The report
// has "broken", a list of the laws that do not hold.
//
// `progress` hears a line about every kProgressSeconds. The server has to have /v1/batches.
Result<json::object> soak(const Target& target, const LoadShape& shape,
                          const std::function<void(const std::string&)>& progress);

inline constexpr double kProgressSeconds = 10;
inline constexpr double kSettlingSeconds = 300;
inline constexpr std::int64_t kMaxGrowthBytes = 8 << 20;

}  // namespace quire::load
