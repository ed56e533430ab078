// Recorded spans as a file of the Chrome trace event format, which https://ui.perfetto.dev and
// chrome://tracing show: an object with "traceEvents"; metadata events ("ph": "M") name processes
// and threads, complete events ("X") have a start and a duration in microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/output_file.h"
#include "base/span_recorder.h"

namespace quire {

class ChromeTrace {
 public:
  // Opens `path` empty. kIoError.
  static Result<ChromeTrace> create(const std::string& path);

  // What follows is of this process, whose times count from `origin_ns` of the recorders' clock.
  Status begin_process(std::string_view name, std::int64_t origin_ns);
  // A thread of it, with the spans that lie within [begin_ns, end_ns]. Events end with `threads` in
  // their arguments where others worked along: how many at a time, mean.
  Status add_thread(std::string_view name, const SpanRecorder& spans, std::int64_t begin_ns,
                    std::int64_t end_ns);
  Status finish();

 private:
  explicit ChromeTrace(OutputFile file) : file_(std::move(file)) {}

  void begin_event();
  void add_metadata(std::string_view what, std::string_view name);
  void add_event(const Span& span);
  Status flush_beyond(std::size_t bytes);

  OutputFile file_;
  std::string buffer_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  bool first_ = true;
  int process_ = 0;
  int thread_ = 0;
  std::int64_t origin_ns_ = 0;
};

}  // namespace quire
