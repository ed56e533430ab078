// A span of OpenTelemetry as plain data: what is known of one stretch of time of one trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/tracing/trace_context.h"

namespace quire {

using AttributeValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct SpanAttribute {
  std::string_view key;  // a literal
  AttributeValue value;
};

struct SpanEvent {
  std::string name;
  std::int64_t unix_nanos = 0;
  std::vector<SpanAttribute> attributes = {};
};

// The numbers are OTLP's.
enum class TraceSpanKind : std::uint8_t { kInternal = 1, kServer = 2 };

struct TraceSpan {
  TraceId trace_id{};
  SpanId span_id{};
  SpanId parent_id{};          // all zero: the trace begins here
  bool parent_remote = false;  // the parent is a span of another service
  std::uint8_t flags = 0;      // of the trace's context
  std::string state;           // its tracestate
  std::string name;
  TraceSpanKind kind = TraceSpanKind::kInternal;
  std::int64_t start_unix_nanos = 0;
  std::int64_t end_unix_nanos = 0;
  std::vector<SpanAttribute> attributes;
  std::vector<SpanEvent> events;
  bool failed = false;          // status ERROR; else it is left unset
  std::string failure_message;  // where it failed; may be empty
};

}  // namespace quire
