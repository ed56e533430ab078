// An Exchange without a network, for tests: collects what a handler answers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "serve/http/exchange.h"

namespace quire {

class TestExchange : public Exchange {
 public:
  explicit TestExchange(HttpRequest request) : request_(std::move(request)) {}
  static std::shared_ptr<TestExchange> post(std::string path, std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"Content-Type", "application/json"}};
    request.body = std::move(body);
    request.request_id = "test-1";
    return std::make_shared<TestExchange>(std::move(request));
  }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    finish_locked();
  }
  void start_stream(HttpResponse head) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(head);
    streaming_ = true;
  }
  void write(std::string_view piece) override {
    const std::lock_guard lock(mutex_);
    response_.body += piece;
  }
  void finish() override {
    const std::lock_guard lock(mutex_);
    finish_locked();
  }
  std::size_t unsent_bytes() const override { return unsent_bytes_; }
  void on_disconnect(std::function<void()> gone) override {
    const std::lock_guard lock(mutex_);
    if (!finished_) gone_ = std::move(gone);
  }

  // Waits for the answer's end; a handler that never ends it hangs the test.
  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return finished_; });
    return response_;
  }
  bool streaming() {
    const std::lock_guard lock(mutex_);
    return streaming_;
  }
  // What has been written so far.
  std::string body() {
    const std::lock_guard lock(mutex_);
    return response_.body;
  }
  bool gone() const override { return disconnected_; }
  void set_unsent_bytes(std::size_t bytes) { unsent_bytes_ = bytes; }
  // The client goes away.
  void disconnect() {
    disconnected_ = true;
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = std::exchange(gone_, nullptr);
    }
    if (gone) gone();
  }

 private:
  void finish_locked() {
    finished_ = true;
    gone_ = nullptr;
    done_.notify_all();
  }

  HttpRequest request_;
  std::mutex mutex_;
  std::condition_variable done_;
  HttpResponse response_;
  bool streaming_ = false;
  bool finished_ = false;
  std::atomic<std::size_t> unsent_bytes_ = 0;
  std::function<void()> gone_;
  std::atomic<bool> disconnected_ = false;
};

}  // namespace quire
