#include "apps/bench_serve/goodput.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace quire::bench {

bool Objectives::met_by(const RequestRecord& request) const {
  if (request.outcome != Outcome::kCompleted) return false;
  if (ttft && request.ttft() > *ttft) return false;
  if (tpot && request.tpot().value_or(0) > *tpot) return false;
  return !e2el || request.e2el() <= *e2el;
}

Result<Objectives> parse_objectives(std::span<const std::string> words) {
  Objectives objectives;
  for (const std::string& word : words) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    const std::string name = word.substr(0, colon);
    std::optional<double>* target = name == "ttft"   ? &objectives.ttft
                                    : name == "tpot" ? &objectives.tpot
                                    : name == "e2el" ? &objectives.e2el
                                                     : nullptr;
    if (target == nullptr || colon == word.size()) {
      return Status::invalid_argument(fmt::format("--goodput {}: no objective", word),
                                      "give milliseconds, as in ttft:500 tpot:50 e2el:2000");
    }
    double value = 0;
    const char* end = word.data() + word.size();
    const auto [at, code] = std::from_chars(word.data() + colon + 1, end, value);
    if (code != std::errc() || at != end || !std::isfinite(value) || value <= 0) {
      return Status::invalid_argument(
          fmt::format("--goodput {}: expected milliseconds above 0", word));
    }
    if (*target) return Status::invalid_argument(fmt::format("--goodput has {} twice", name));
    *target = value / 1e3;
  }
  return objectives;
}

json::object to_json(const Objectives& objectives) {
  json::object result;
  if (objectives.ttft) result["ttft"] = *objectives.ttft * 1e3;
  if (objectives.tpot) result["tpot"] = *objectives.tpot * 1e3;
  if (objectives.e2el) result["e2el"] = *objectives.e2el * 1e3;
  return result;
}

}  // namespace quire::bench
