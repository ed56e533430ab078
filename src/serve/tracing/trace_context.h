// The place of a request in a trace that other services take part in, as W3C Trace Context (level
// 1; of level 2 the random flag) has it: read from the headers of a request, written into headers.
// What is not valid is passed over as the specification says, never an error.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace quire {

using TraceId = std::array<std::uint8_t, 16>;  // never all zero
using SpanId = std::array<std::uint8_t, 8>;    // never all zero

struct TraceContext {
  static constexpr std::uint8_t kSampled = 0x01;
  static constexpr std::uint8_t kRandomId = 0x02;  // the trace's id is random in its last 7 bytes

  TraceId trace_id{};
  SpanId span_id{};
  std::uint8_t flags = 0;
  std::string state;  // the members of tracestate, comma separated; may be empty

  bool sampled() const { return (flags & kSampled) != 0; }
};

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; versions after 00 are read as far as
// they are like it. Nothing for anything else.
std::optional<TraceContext> parse_traceparent(std::string_view text);

// The members of a tracestate header (several of them joined by commas), in order, without empty
// ones and white space. Nothing where one is broken, twice there, or there are more than 32.
std::optional<std::string> parse_tracestate(std::string_view text);

// At most 512 characters of a valid tracestate, whole members: long ones go first, then the last.
std::string shortened_tracestate(std::string_view state);

// The context that a request brings: exactly one valid traceparent, and a tracestate if that is
// valid, too.
std::optional<TraceContext> incoming_context(std::span<const HttpHeader> headers);

// The value of a traceparent or traceresponse header.
std::string to_traceparent(const TraceContext& context);

// Ids of one trace. Only the first draws from the system; no two sources give the same ids.
class IdSource {
 public:
  IdSource();

  TraceId trace_id() const { return trace_id_; }
  SpanId next_span_id();

 private:
  TraceId trace_id_{};
  std::uint64_t seed_ = 0;
  std::uint64_t counter_ = 0;
};

// Lower-case hexadecimal digits.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace quire
