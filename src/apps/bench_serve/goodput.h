// Goodput: the requests that were answered as fast as was promised.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "apps/bench_serve/record.h"
#include "base/json.h"
#include "base/status.h"

namespace quire::bench {

// The longest times that count as good, in seconds; a request has to keep all that are set.
struct Objectives {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2el;

  bool any() const { return ttft || tpot || e2el; }
  // Whether the request was completed within them. An output of one token has no time per token
  // and keeps that objective.
  bool met_by(const RequestRecord& request) const;
};

// From "ttft:500", "tpot:50", "e2el:2000": milliseconds. kInvalidArgument for another name, a
// value that is no positive number, a name given twice.
Result<Objectives> parse_objectives(std::span<const std::string> words);

json::object to_json(const Objectives& objectives);  // in milliseconds

}  // namespace quire::bench
