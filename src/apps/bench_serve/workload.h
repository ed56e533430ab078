// What is sent: every request of a run, made before the clock starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench_serve/prompt_source.h"
#include "base/status.h"

namespace quire::bench {

enum class Dataset : std::uint8_t { kRandom, kPrefix, kJsonl, kTrace };

struct WorkloadFlags {
  Dataset dataset = Dataset::kRandom;
  std::string path;                         // of kJsonl and kTrace
  std::optional<std::int64_t> num_prompts;  // 1,000, or all lines of a file
  std::int64_t input_len = 1024;
  std::int64_t output_len = 128;
  double range_ratio = 0;  // lengths are uniform within this share above and below
  std::int64_t prefix_len = 256;
  std::int64_t suffix_len = 256;
  std::int64_t num_prefixes = 10;
  bool timestamps_in_ms = false;
  std::uint64_t seed = 0;
};

// What all requests have in common.
struct RequestFormat {
  bool chat = false;
  std::string model;
  bool ignore_eos = false;
  double temperature = 0;
  json::object extra;  // more fields of the body; they go before those above
};

struct PlannedRequest {
  std::string body;
  double timestamp = 0;            // of a trace: seconds from its first request
  std::int64_t prompt_tokens = 0;  // 0: not known before the server counts them
};

// A line of a file: a prompt or its length, and what else it says.
struct WorkloadLine {
  std::optional<Prompt> prompt;
  std::optional<std::int64_t> input_len;
  std::optional<std::int64_t> output_len;
  std::optional<double> timestamp;  // as the file has it
};

// Reads kJsonl and kTrace, at most `num_prompts` lines. kNotFound, kIoError, kInvalidArgument
// naming the line. docs/benchmarking.md has the fields.
Result<std::vector<WorkloadLine>> read_workload_file(const WorkloadFlags& flags);

// All requests of a run; `lines` are those of the file, if there is one. Runs of different `salt`
// get different random prompts. kInvalidArgument for what the endpoint does not accept.
Result<std::vector<PlannedRequest>> make_requests(const WorkloadFlags& flags,
                                                  const std::vector<WorkloadLine>& lines,
                                                  const RequestFormat& format,
                                                  const PromptSource& source, std::uint64_t salt);

}  // namespace quire::bench
