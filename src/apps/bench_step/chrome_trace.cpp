#include "apps/bench_step/chrome_trace.h"

#include <iterator>

#include <fmt/format.h>

#include "base/json.h"

namespace quire {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

std::string quoted(std::string_view text) {
  return json::serialize(json::value(json::string_view(text.data(), text.size())));
}

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace

Result<ChromeTrace> ChromeTrace::create(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  return ChromeTrace(std::move(file));
}

Status ChromeTrace::begin_process(std::string_view name, std::int64_t origin_ns) {
  ++process_;
  thread_ = 0;
  origin_ns_ = origin_ns;
  add_metadata("process_name", name);
  return flush_beyond(kBufferBytes);
}

Status ChromeTrace::add_thread(std::string_view name, const SpanRecorder& spans,
                               std::int64_t begin_ns, std::int64_t end_ns) {
  ++thread_;
  add_metadata("thread_name", name);
  for (std::uint64_t number = spans.oldest(); number < spans.num_ended(); ++number) {
    const Span& span = spans[number];
    if (span.start_ns < begin_ns || span.end_ns > end_ns) continue;
    add_event(span);
    QUIRE_RETURN_IF_ERROR(flush_beyond(kBufferBytes));
  }
  return {};
}

Status ChromeTrace::finish() {
  buffer_ += "\n]}\n";
  QUIRE_RETURN_IF_ERROR(flush_beyond(0));
  return file_.close();
}

void ChromeTrace::begin_event() {
  buffer_ += first_ ? "\n" : ",\n";
  first_ = false;
}

void ChromeTrace::add_metadata(std::string_view what, std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_),
                 R"({{"ph":"M","name":{},"pid":{},"tid":{},"args":{{"name":{}}}}})", quoted(what),
                 process_, thread_, quoted(name));
}

void ChromeTrace::add_event(const Span& span) {
  begin_event();
  auto out = std::back_inserter(buffer_);
  fmt::format_to(
      out, R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{)",
      quoted(span.stage->name), quoted(stage_kind_name(span.stage->kind)), process_, thread_,
      microseconds(span.start_ns - origin_ns_), microseconds(span.duration_ns()));
  std::string_view separator;
  const auto argument = [&](std::string_view name, std::uint64_t value) {
    if (value == 0) return;
    fmt::format_to(out, R"({}"{}":{})", separator, name, value);
    separator = ",";
  };
  argument("step_id", span.id);
  argument("bytes", span.cost.bytes);
  argument("operations", span.cost.operations);
  if (span.others_ns != 0 && span.duration_ns() > 0) {
    fmt::format_to(
        out, R"({}"threads":{:.2f})", separator,
        1.0 + static_cast<double>(span.others_ns) / static_cast<double>(span.duration_ns()));
  }
  buffer_ += "}}";
}

Status ChromeTrace::flush_beyond(std::size_t bytes) {
  if (buffer_.size() <= bytes) return {};
  QUIRE_RETURN_IF_ERROR(file_.write(buffer_));
  buffer_.clear();
  return {};
}

}  // namespace quire
