// A measurement as people and programs read it.
#pragma once

#include <string>
#include <vector>

#include "apps/bench_serve/goodput.h"
#include "apps/bench_serve/record.h"
#include "apps/bench_serve/summary.h"
#include "base/json.h"

namespace quire::bench {

struct Level {
  RunRecord run;
  Summary summary;
};

struct Report {
  std::string base_url;
  std::string endpoint;
  std::string model;
  std::string dataset;  // "random"
  std::string prompts;  // what they are, in words
  std::uint64_t seed = 0;
  Objectives objectives;
  std::vector<Level> levels;  // one, or those of a sweep
};

// "4 requests/s", "16 at once", "as in the trace".
std::string level_name(const RunRecord& run);
// Whose count of tokens a level's figures are, in a sentence.
std::string counting_note(const Summary& summary);
// What a reader of the figures has to know; empty where there is nothing.
std::vector<std::string> warnings(const Level& level);

std::string to_text(const Report& report);
// The last level's figures at the top, those of all levels under "levels".
json::object to_json(const Report& report);

}  // namespace quire::bench
