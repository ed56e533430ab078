#include "apps/bench_serve/record.h"

#include <algorithm>

namespace quire::bench {

std::string_view failure_name(FailureKind kind) {
  switch (kind) {
    case FailureKind::kConnection:
      return "connection";
    case FailureKind::kHttpStatus:
      return "http_status";
    case FailureKind::kTimeout:
      return "timeout";
    case FailureKind::kBrokenStream:
      return "broken_stream";
    case FailureKind::kServerError:
      return "server_error";
    case FailureKind::kNoText:
      return "no_text";
  }
  return "";
}

void FailureLog::add(FailureKind kind, std::string_view message) {
  const auto find = [&](std::string_view text) {
    return std::ranges::find_if(
        causes_, [&](const Cause& cause) { return cause.kind == kind && cause.message == text; });
  };
  auto cause = find(message);
  if (cause == causes_.end() && causes_.size() >= kMaxCauses) {
    message = "other causes";
    cause = find(message);
  }
  if (cause == causes_.end()) {
    causes_.push_back({.kind = kind, .message = std::string(message), .count = 0});
    cause = std::prev(causes_.end());
  }
  ++cause->count;
}

}  // namespace quire::bench
