// The answer of one exchange on its way from whoever writes it (any thread) to the connection that
// sends it (the I/O thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/exchange.h"

namespace quire {

class PendingAnswer;

// Answers that have something new for their connections. What the engine's output thread writes in
// one go reaches the I/O thread by one wake-up.
class Outbox {
 public:
  explicit Outbox(std::function<void()> wake_io_thread) : wake_(std::move(wake_io_thread)) {}

  void push(std::shared_ptr<PendingAnswer> answer);
  std::vector<std::shared_ptr<PendingAnswer>> take();  // I/O thread
  void close();  // the I/O thread is about to end: later pushes go nowhere

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<std::shared_ptr<PendingAnswer>> ready_;
};

class PendingAnswer final : public Exchange, public std::enable_shared_from_this<PendingAnswer> {
 public:
  PendingAnswer(HttpRequest request, std::shared_ptr<Outbox> outbox,
                std::uint64_t max_unsent_bytes);

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void start_stream(HttpResponse head) override;
  void write(std::string_view piece) override;
  void finish() override;
  std::size_t unsent_bytes() const override;
  void on_disconnect(std::function<void()> gone) override;
  bool gone() const override;

  // The connection's side; I/O thread, but fail().
  struct Unsent {
    std::optional<HttpResponse> head;  // the answer has begun; its body is in `body`
    bool streaming = false;            // then the length of the whole is not known
    std::string body;
    bool finished = false;  // there is no more
    bool overflow = false;  // the client has let its buffer overflow
    bool cut_off = false;   // there is no more, and it is not whole
  };
  // Answers in place of a handler that has failed; a stream that has begun ends without its end.
  void fail(HttpResponse response);
  Unsent take_unsent();
  bool overflowed();
  // A comment into a silent event stream that waits for its next event; false if it is none.
  bool keep_alive();
  // The client has gone, unless it has read the whole answer.
  void disconnect();

  std::function<void()> wake_connection;  // set before the handler runs; I/O thread

 private:
  void notify(std::unique_lock<std::mutex>& lock);

  HttpRequest request_;
  std::shared_ptr<Outbox> outbox_;
  std::uint64_t max_unsent_bytes_;

  mutable std::mutex mutex_;
  std::optional<HttpResponse> head_;
  bool answered_ = false;
  bool streaming_ = false;
  bool event_stream_ = false;
  bool finished_ = false;
  bool disconnected_ = false;
  bool overflow_ = false;
  bool cut_off_ = false;
  bool notified_ = false;
  std::string body_;
  std::function<void()> gone_;
};

}  // namespace quire
