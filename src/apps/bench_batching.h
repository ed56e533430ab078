// `quire bench throughput --compare-batching` and `--batch-sizes`: one workload under several ways
// of batching, or several numbers of slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_load.h"
#include "engine/api.h"

namespace quire {

struct BatchingBench {
  EngineArgs engine;
  LoadShape load;                         // all requests are submitted at once
  std::vector<std::int64_t> batch_sizes;  // slots of each run; empty: --max-num-seqs
  bool all_policies = false;              // static, dynamic and continuous; else --batching
  std::string timeline;                   // file to draw the runs' slots in; empty: none
  bool json = false;
};

// Runs and prints. kInternal if two runs gave different tokens, for that must never be.
Status run_batching_bench(const BatchingBench& bench);

}  // namespace quire
