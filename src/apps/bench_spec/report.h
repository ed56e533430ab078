// What `quire bench spec` has measured, and how it is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench_spec/agreement.h"
#include "apps/bench_spec/measure.h"
#include "apps/bench_spec/texts.h"
#include "base/json.h"

namespace quire {

struct SpecTextReport {
  SpecText text;
  std::vector<SpecOutcome> outcomes;        // `off` first
  std::optional<Agreement> agreement = {};  // with a draft model
};

struct SpecReport {
  std::string model;
  std::string isa_level;
  int threads = 0;
  std::string speculation;  // SpeculativeConfig::to_text()
  std::int32_t max_guesses = 0;
  SpecLoad load;
  RowCosts costs = {};  // of one output at a time; among several a row costs something else
  std::vector<SpecTextReport> texts = {};
  bool interrupted = false;  // so texts are missing, or the last one's turns
};

// 1 / (1 - f + f c), for a share f of tokens that were guessed and rows that cost c: what there
// would be were no guess wrong. nullopt where it is unknown what a row costs.
std::optional<double> spec_bound(const SpecOutcome& outcome, const RowCosts& costs);

json::object to_json(const SpecReport& report);
std::string to_text(const SpecReport& report);

}  // namespace quire
