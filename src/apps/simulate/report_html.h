// Simulated runs as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "apps/charts/report_page.h"
#include "apps/charts/request_charts.h"
#include "apps/simulate/simulation.h"

namespace quire {

// What a run of a sweep has set, and what came out.
struct SimulatedRun {
  std::vector<std::string> labels;  // "replicas=2"
  SimulationSummary summary;
};

// Gathers runs, so that the requests of one alone are in memory.
class SimulationPage {
 public:
  // `what`: model, device and traffic.
  SimulationPage(std::string what, Provenance provenance)
      : what_(std::move(what)), provenance_(std::move(provenance)) {}

  void add(const SimulatedRun& run, const std::vector<RequestTimes>& requests);
  // `runs`: those that were added. `note`: a sentence on them; may be empty.
  std::string html(const std::vector<SimulatedRun>& runs, const std::string& note) const;

 private:
  std::string what_;
  Provenance provenance_;
  std::string sections_;
};

}  // namespace quire
