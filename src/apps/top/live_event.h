// What a server's GET /engine/live says, as far as `quire top` shows it. Another program wrote it:
// every part is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace quire {

struct LiveSequence {
  std::string id;
  std::int64_t index = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t known_tokens = 0;
  std::int64_t max_tokens = 0;
  std::int64_t blocks = 0;
  double age_s = 0;
  std::string wait;  // empty: it waits for nothing
  double waited_s = 0;
};

struct LiveRank {
  std::optional<double> p50_ms;  // empty where there were none lately
  std::optional<double> p99_ms;
};

struct LiveRow {  // of a step
  std::int64_t slot = 0;
  std::int64_t request = 0;
  std::int64_t tokens = 0;  // 0: one of its output, -1: thrown away, else so many of its prompt
};

struct LiveSpeculation {
  std::string method;
  std::int64_t draft_tokens = 0;
  std::int64_t accepted_tokens = 0;
  std::optional<double> speedup;  // by the engine's estimate, where it has one
};

struct LiveEvent {
  std::string model;
  double time_s = 0;  // since the engine's start
  std::int64_t max_num_seqs = 0;
  std::int64_t num_running = 0;
  std::int64_t num_waiting = 0;
  std::vector<LiveSequence> running;
  std::vector<LiveSequence> waiting;
  std::int64_t blocks_total = 0;
  std::int64_t blocks_used = 0;
  std::int64_t blocks_shared = 0;
  std::int64_t blocks_cached = 0;
  std::int64_t preemptions = 0;
  std::optional<LiveSpeculation> speculation;  // where the engine guesses tokens
  bool has_rates = false;                      // the first event of a stream may have none
  double output_tokens = 0;
  double prompt_tokens = 0;
  double requests = 0;
  double steps = 0;
  LiveRank first_token;
  LiveRank inter_token;
  std::vector<LiveRow> last_step;  // empty where no step came lately
};

// `text` is the data of one event. kUnavailable with the server's words where it is an error,
// kInvalidArgument naming what is not as expected.
Result<LiveEvent> parse_live_event(std::string_view text);

}  // namespace quire
