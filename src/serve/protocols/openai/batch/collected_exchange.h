// An exchange without a connection: the answer is collected in memory and handed over when it is
// whole. This is how batches call the handlers that serve the endpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "serve/http/exchange.h"

namespace quire {

class CollectedExchange final : public Exchange {
 public:
  using Done = std::function<void(HttpResponse)>;

  // `done` is called once, on the thread that ends the answer, unless abort() came first. An answer
  // of more than `max_bytes` becomes an error.
  CollectedExchange(HttpRequest request, std::uint64_t max_bytes, Done done);

  // What a connection does when its client goes away: the handler is told, and whatever it still
  // answers goes nowhere. Does nothing after the end.
  void abort();

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void start_stream(HttpResponse head) override;
  void write(std::string_view piece) override;
  void finish() override;
  std::size_t unsent_bytes() const override { return 0; }  // taken at once
  void on_disconnect(std::function<void()> gone) override;

 private:
  void end(std::unique_lock<std::mutex> lock);

  HttpRequest request_;
  std::uint64_t max_bytes_;

  std::mutex mutex_;
  Done done_;
  std::function<void()> gone_;
  HttpResponse response_;
  bool answered_ = false;
  bool ended_ = false;
  bool aborted_ = false;
  bool overflow_ = false;
};

}  // namespace quire
