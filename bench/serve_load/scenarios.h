// What is measured; each gives a flat report.
#pragma once

#include "base/json.h"
#include "serve_load/target.h"

namespace quire::load {

struct LoadShape {
  int clients = 1000;
  int slow_clients = 500;
  std::int64_t max_tokens = 100;
  std::size_t prompt_tokens = 8;
  double seconds = 10;  // of a saturation or a soak
  std::uint64_t seed = 0;
};

// `clients` streams at once: errors, tokens, how much later than its step's end a token is read,
// and the process's memory for a stream.
Result<json::object> measure_streams(const Target& target, const LoadShape& shape);

// `clients` in all, of which a few hundred at once go away at random moments: what is left of them.
Result<json::object> measure_disconnects(const Target& target, const LoadShape& shape);

// The gaps between the tokens of `clients` streams, alone and beside `slow_clients` that read a
// byte a second.
Result<json::object> measure_slow_readers(const Target& target, const LoadShape& shape);

// Streamed tokens a second with `clients` that ask again and again, and each thread's time for one.
Result<json::object> measure_saturation(const Target& target, const LoadShape& shape);

}  // namespace quire::load
