// Spans as the body of an OTLP/HTTP request: ExportTraceServiceRequest in Protobuf's JSON mapping
// with OTLP's exceptions (ids in hexadecimal, enums as numbers, 64-bit integers as strings).
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/tracing/trace_span.h"

namespace quire {

// What all spans of a batch have in common.
struct SpanSource {
  std::vector<std::pair<std::string, std::string>> resource;  // the service: service.name and so on
  std::string scope_name;                                     // who made the spans
  std::string scope_version;
};

std::string to_otlp_json(const SpanSource& source, std::span<const TraceSpan> spans);

}  // namespace quire
