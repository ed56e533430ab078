// Sends the requests of a run at their times and writes down what comes back. One thread; a
// coroutine for each request in flight.
//
// A request's times count from when it was to arrive, not from when the client got round to it: a
// server that answers slowly, or a limit of requests in flight, cannot make the load easier than
// was asked for (no coordinated omission). Only where nothing but a free slot makes a request
// arrive (a fixed concurrency without a rate) does it arrive when there is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench_serve/connection.h"
#include "apps/bench_serve/record.h"
#include "apps/bench_serve/workload.h"
#include "apps/interrupt.h"

namespace quire::bench {

struct LoadPlan {
  std::vector<PlannedRequest> requests;
  std::vector<double> arrivals;    // of each request, in seconds, ascending
  bool arrive_with_slots = false;  // `arrivals` are all 0; a request arrives when a slot is free
  std::optional<std::int64_t> max_concurrency;
  std::string route;  // "/v1/completions"
  std::string api_key;
  double timeout = 0;  // seconds that a request may take once it was started
  bool show_progress = true;
  std::string label;  // of the progress bar
};

// Runs to the last answer, or until an interrupt, after which requests in flight are cut short.
// What goes wrong with a request is in its record; the run itself cannot fail. `address` has been
// settled on one endpoint.
RunRecord run_load(const ServerAddress& address, const LoadPlan& plan,
                   const InterruptWatcher& interrupt);

}  // namespace quire::bench
