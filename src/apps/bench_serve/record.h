// What a run leaves behind: one record a request, whatever became of it, and the times between
// pieces of text. Reports are made from this alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::bench {

enum class Outcome : std::uint8_t {
  kNotSent,     // the run was interrupted before
  kUnfinished,  // the run was interrupted meanwhile
  kCompleted,
  kFailed,
};

enum class FailureKind : std::uint8_t {
  kConnection,    // no connection, or it ended before the answer began
  kHttpStatus,    // another status than 200
  kTimeout,       // longer than --timeout
  kBrokenStream,  // the answer began and did not come to its end, or is none
  kServerError,   // an event of the stream that carries an error
  kNoText,        // a complete answer without a piece of text
};

// "connection", "http_status", ...: as reports name it.
std::string_view failure_name(FailureKind kind);

// All times in seconds since the run's start.
struct RequestRecord {
  Outcome outcome = Outcome::kNotSent;
  bool usage_given = false;  // the counts of tokens are the server's
  double intended = 0;       // when it was to arrive
  double started = 0;        // when the client began it: a slot was free, its time had come
  double first_text = 0;     // when the first text was read; 0: none came
  double last_text = 0;
  double ended = 0;                // when the end of the answer was read, or it failed
  std::int64_t prompt_tokens = 0;  // as the server counts, else as they were sent; 0: unknown
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;  // as the server counts, else `text_events`
  std::int64_t text_events = 0;    // pieces of text that were received

  double ttft() const { return first_text - intended; }
  double e2el() const { return ended - intended; }
  // Of an output token after the first; nullopt for an output of one token.
  std::optional<double> tpot() const {
    if (output_tokens < 2) return std::nullopt;
    return (last_text - first_text) / static_cast<double>(output_tokens - 1);
  }
};

// Failures by cause. At most kMaxCauses causes are told apart; those beyond count under one name
// for each kind.
class FailureLog {
 public:
  static constexpr std::size_t kMaxCauses = 20;
  struct Cause {
    FailureKind kind;
    std::string message;
    std::int64_t count = 0;
  };

  void add(FailureKind kind, std::string_view message);
  const std::vector<Cause>& causes() const { return causes_; }

 private:
  std::vector<Cause> causes_;
};

struct RunRecord {
  static constexpr double kSliceSeconds = 0.1;

  std::optional<double> request_rate;  // infinite, or the rate; nullopt: by a trace
  std::optional<std::int64_t> max_concurrency;
  double duration = 0;  // to the end of the last answer
  bool interrupted = false;
  std::vector<RequestRecord> requests;
  std::vector<float> inter_token;          // seconds between pieces of text of one answer
  std::vector<float> client_lag;           // seconds that the client's own clockwork was late
  std::vector<std::uint32_t> text_events;  // received in each slice of kSliceSeconds
  std::int64_t connections_opened = 0;
  double client_cpu_seconds = 0;
  FailureLog failures;
};

}  // namespace quire::bench
