// Which traces are recorded: the samplers of OpenTelemetry by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "serve/tracing/trace_context.h"

namespace quire {

class TraceSampler {
 public:
  TraceSampler() = default;  // parentbased_always_on

  // `name`: always_on, always_off, traceidratio, or one of them after "parentbased_". `ratio` is
  // for traceidratio, a number from 0 to 1. kUnimplemented for another name, kInvalidArgument for a
  // bad ratio.
  static Result<TraceSampler> create(std::string_view name, std::string_view ratio);

  // `parent`: what the request brought, if anything. `trace_id`: the trace's.
  bool sample(const std::optional<TraceContext>& parent, const TraceId& trace_id) const;

 private:
  bool parent_decides_ = true;
  double ratio_ = 1;  // of the traces that begin here
};

}  // namespace quire
