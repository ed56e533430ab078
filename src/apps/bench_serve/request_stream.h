// One request from its body's first byte to the end of its answer, over a connection that is there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/bench_serve/answer_reader.h"
#include "apps/bench_serve/connection.h"
#include "apps/bench_serve/record.h"

namespace quire::bench {

struct Failure {
  FailureKind kind;
  std::string message;
};

// What the run keeps for all of its requests together.
class RunClock {
 public:
  virtual ~RunClock() = default;
  virtual double now() const = 0;  // seconds from the run's start
  // A piece of text was read at `time`, `gap` seconds after the one before it in its answer.
  virtual void on_text(double time, std::optional<double> gap) = 0;
};

class RequestStream {
 public:
  // Borrows all of them. Counts and times go into `record`.
  RequestStream(Connection& connection, RequestRecord& record, RunClock& clock);

  // Nullopt where the answer came whole and has text.
  boost::asio::awaitable<std::optional<Failure>> run(std::string_view head, std::string_view body);
  bool reusable() const { return reader_.reusable(); }  // the connection

 private:
  void on_event(const EventFacts& facts, std::string_view data);
  std::optional<Failure> verdict() const;

  Connection& connection_;
  RequestRecord& record_;
  RunClock& clock_;
  AnswerReader reader_;
  double read_at_ = 0;  // when the bytes that are being looked at came
  bool finished_ = false;
  std::string server_error_;  // of an event of the stream
};

}  // namespace quire::bench
