// Where traces go and how, from a flag and from the environment variables that OpenTelemetry
// defines for that.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/http/message.h"
#include "serve/tracing/trace_sampler.h"

namespace quire {

struct OtlpSettings {
  std::string url;  // that spans are posted to, whole
  std::vector<HttpHeader> headers;
  std::chrono::milliseconds timeout{10'000};  // of one request to the collector
  TraceSampler sampler;
  std::string service_name = "quire";
  // Of OTEL_RESOURCE_ATTRIBUTES; service.name is not among them.
  std::vector<std::pair<std::string, std::string>> resource;
  std::size_t max_queued_spans = 8192;
  std::size_t max_batch_spans = 512;
  std::chrono::milliseconds batch_delay{1'000};  // the longest that a span waits for others
  std::vector<std::string> notes;                // what the user should know of it
};

// The value of an environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// The process's own.
std::optional<std::string> process_environment(const char* name);

// `endpoint` is the flag's value. Nothing where neither it nor the environment names an endpoint,
// or OTEL_SDK_DISABLED is true. A variable of the form OTEL_EXPORTER_OTLP_TRACES_* goes before
// OTEL_EXPORTER_OTLP_*. kUnimplemented for what is known and not there (gRPC, compression, client
// certificates), kInvalidArgument for a value that is wrong; both name the flag or variable.
Result<std::optional<OtlpSettings>> read_otlp_settings(std::string_view endpoint,
                                                       const Environment& environment);

}  // namespace quire
