// A measurement as one HTML page: figures and charts, no scripts, nothing from elsewhere.
#pragma once

#include <string>

#include "apps/bench_serve/report.h"

namespace quire::bench {

// Where, when and how a measurement was made.
struct Provenance {
  std::string time;     // "2026-11-24 03:37 UTC"
  std::string version;  // of Quire, the client
  std::string machine;  // that the client ran on
  std::string command;  // without the key
};

std::string to_html(const Report& report, const Provenance& provenance);

}  // namespace quire::bench
