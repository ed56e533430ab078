// What this machine can do at most: the ceiling that kernels and whole runs are compared with
// (`quire bench limits`). Measured, in a few seconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/limit_kernels.h"
#include "kernels/op_table.h"

namespace quire {

struct ThreadLimits {
  int threads = 1;
  // Reading memory larger than any cache, in bytes per second: of several passes.
  double best_read_bandwidth = 0.0;
  double median_read_bandwidth = 0.0;
  // Operations per second of each PeakKind (a multiplication and an addition are two), operands in
  // registers; nothing where the level lacks the instructions.
  std::optional<double> peaks[kNumPeakKinds];
  // Seconds of an empty parallel region, in the median: while the workers spin, and when they
  // sleep.
  double fork_join_seconds = 0.0;
  double wake_up_seconds = 0.0;
};

struct MachineLimits {
  std::string processor;
  IsaLevel level = IsaLevel::kRef;       // that the operations were measured at
  std::vector<ThreadLimits> by_threads;  // 1, 2, 4, ... and the most
};

// The name that the processor reports.
std::string processor_name();

// Measures with up to `max_threads` threads at the chosen level (kernels/op_table.h), on 512 MiB of
// memory. Errors: kInvalidArgument for max_threads < 1, kResourceExhausted, those of
// choose_level().
Result<MachineLimits> measure_machine_limits(int max_threads);

}  // namespace quire
