#include "serve/models/deferred_calls.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace quire {

Status DeferredCalls::start() {
  const std::lock_guard lock(mutex_);
  if (running_ || stopping_) return {};
  QUIRE_ASSIGN_OR_RETURN(thread_, start_thread("quire-deferred", [this] { run(); }));
  running_ = true;
  return {};
}

void DeferredCalls::post(std::function<void()> call, Clock::time_point due) {
  {
    const std::lock_guard lock(mutex_);
    if (!running_ || stopping_) return;
    calls_.emplace(due, std::move(call));
  }
  wake_.notify_one();
}

void DeferredCalls::stop() {
  std::multimap<Clock::time_point, std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(calls_);
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DeferredCalls::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (calls_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto first = calls_.begin();
    if (const Clock::time_point due = first->first; due > Clock::now()) {
      wake_.wait_until(lock, due);
      continue;
    }
    auto call = std::move(first->second);
    calls_.erase(first);
    lock.unlock();
    try {
      call();
    } catch (const std::exception& error) {
      log_warning("a deferred call failed: {}", error.what());
    }
    call = nullptr;  // and what it owns, before the lock
    lock.lock();
  }
}

}  // namespace quire
