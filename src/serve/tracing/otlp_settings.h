// Where traces go and how, from a flag and from the environment variables that OpenTelemetry
// defines for that.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/http/message.h"
#include "serve/tracing/span_exporter.h"
#include "serve/tracing/trace_sampler.h"

namespace quire {

struct OtlpSettings {
  SpanExporterConfig exporter;  // its url is the one that spans are posted to; without a source
  std::vector<HttpHeader> headers;
  std::chrono::milliseconds timeout{10'000};  // of one request to the collector
  TraceSampler sampler;
  std::string service_name = "quire";
  // Of OTEL_RESOURCE_ATTRIBUTES; service.name is not among them.
  std::vector<std::pair<std::string, std::string>> resource;
  std::vector<std::string> notes;  // what the user should know of it
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
