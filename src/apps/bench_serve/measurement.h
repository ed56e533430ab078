// A whole measurement: asks the server what it is, makes the requests, warms up, runs each level
// and puts the report together.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "apps/bench_serve/report.h"
#include "apps/bench_serve/workload.h"
#include "apps/interrupt.h"

namespace quire::bench {

struct MeasurementPlan {
  std::string base_url = "http://127.0.0.1:8000";
  std::string endpoint = "/v1/completions";
  std::string model;  // empty: the first of the server's
  std::string api_key;
  bool insecure = false;
  WorkloadFlags workload;
  RequestFormat format;  // its model and chat follow from those above
  // One of these may have several values.
  std::vector<double> request_rates = {std::numeric_limits<double>::infinity()};
  std::vector<std::int64_t> max_concurrency;  // empty: no limit
  double burstiness = 1;
  std::int64_t num_warmups = 1;
  double timeout = 600;
  Objectives objectives;
};

// Levels that an interrupt kept from running are not in the report. Errors: what `plan` says that
// cannot be done, a server that is not there, a warm-up request that failed. Failures of other
// requests are in the report.
Result<Report> measure(const MeasurementPlan& plan, const InterruptWatcher& interrupt);

}  // namespace quire::bench
