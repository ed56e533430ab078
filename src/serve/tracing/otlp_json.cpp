#include "serve/tracing/otlp_json.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/json.h"

namespace quire {
namespace {

// Bits 8 and 9 of a span's flags: whether it is known if the parent is remote, and whether it is.
constexpr unsigned kHasIsRemote = 0x100;
constexpr unsigned kIsRemote = 0x200;
constexpr int kStatusError = 2;

void append_string(std::string& out, std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (!plain) {
    out += json::serialize(json::string_view(text));
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

struct ValueWriter {
  std::string& out;

  void operator()(bool value) const {
    out += value ? R"({"boolValue":true})" : R"({"boolValue":false})";
  }
  void operator()(std::int64_t value) const {
    fmt::format_to(std::back_inserter(out), R"({{"intValue":"{}"}})", value);
  }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(out), R"({{"doubleValue":{}}})", value);
    } else {
      const std::string_view name = std::isnan(value) ? "NaN"
                                    : value > 0       ? "Infinity"
                                                      : "-Infinity";
      fmt::format_to(std::back_inserter(out), R"({{"doubleValue":"{}"}})", name);
    }
  }
  void operator()(const std::string& value) const {
    out += R"({"stringValue":)";
    append_string(out, value);
    out += '}';
  }
  void operator()(const std::vector<std::string>& values) const {
    out += R"({"arrayValue":{"values":[)";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      (*this)(values[i]);
    }
    out += "]}}";
  }
};

void append_attributes(std::string& out, std::span<const SpanAttribute> attributes) {
  out += R"("attributes":[)";
  bool first = true;
  for (const SpanAttribute& attribute : attributes) {
    if (!std::exchange(first, false)) out += ',';
    fmt::format_to(std::back_inserter(out), R"({{"key":"{}","value":)", attribute.key);
    std::visit(ValueWriter{out}, attribute.value);
    out += '}';
  }
  out += ']';
}

void append_resource(std::string& out, const SpanSource& source) {
  out += R"("resource":{"attributes":[)";
  bool first = true;
  for (const auto& [key, value] : source.resource) {
    if (!std::exchange(first, false)) out += ',';
    out += R"({"key":)";
    append_string(out, key);
    out += R"(,"value":)";
    ValueWriter{out}(value);
    out += '}';
  }
  out += "]}";
}

void append_events(std::string& out, std::span<const SpanEvent> events) {
  out += R"(,"events":[)";
  bool first = true;
  for (const SpanEvent& event : events) {
    if (!std::exchange(first, false)) out += ',';
    fmt::format_to(std::back_inserter(out), R"({{"timeUnixNano":"{}","name":)", event.unix_nanos);
    append_string(out, event.name);
    out += ',';
    append_attributes(out, event.attributes);
    out += '}';
  }
  out += ']';
}

void append_span(std::string& out, const TraceSpan& span) {
  fmt::format_to(std::back_inserter(out), R"({{"traceId":"{}","spanId":"{}")",
                 to_hex(span.trace_id), to_hex(span.span_id));
  if (span.parent_id != SpanId{}) {
    fmt::format_to(std::back_inserter(out), R"(,"parentSpanId":"{}")", to_hex(span.parent_id));
  }
  if (!span.state.empty()) {
    out += R"(,"traceState":)";
    append_string(out, span.state);
  }
  const unsigned flags = span.flags | kHasIsRemote | (span.parent_remote ? kIsRemote : 0);
  fmt::format_to(std::back_inserter(out), R"(,"flags":{},"name":)", flags);
  append_string(out, span.name);
  fmt::format_to(std::back_inserter(out),
                 R"(,"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}",)",
                 static_cast<int>(span.kind), span.start_unix_nanos, span.end_unix_nanos);
  append_attributes(out, span.attributes);
  if (!span.events.empty()) append_events(out, span.events);
  if (span.failed) {
    fmt::format_to(std::back_inserter(out), R"(,"status":{{"code":{})", kStatusError);
    if (!span.failure_message.empty()) {
      out += R"(,"message":)";
      append_string(out, span.failure_message);
    }
    out += '}';
  }
  out += '}';
}

}  // namespace

std::string to_otlp_json(const SpanSource& source, std::span<const TraceSpan> spans) {
  std::string out = R"({"resourceSpans":[{)";
  append_resource(out, source);
  out += R"(,"scopeSpans":[{"scope":{"name":)";
  append_string(out, source.scope_name);
  out += R"(,"version":)";
  append_string(out, source.scope_version);
  out += R"(},"spans":[)";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) out += ',';
    append_span(out, spans[i]);
  }
  out += "]}]}]}";
  return out;
}

}  // namespace quire
