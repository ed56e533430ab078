// What a remote device has to do, in order, on a thread of its own: nothing before run().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace quire::test {

class RemoteQueue {
 public:
  // Counts what is done in `num_done`.
  explicit RemoteQueue(std::atomic<std::uint64_t>& num_done)
      : num_done_(num_done), thread_([this] { work(); }) {}
  // What was not run is forgotten.
  ~RemoteQueue() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  RemoteQueue(const RemoteQueue&) = delete;
  RemoteQueue& operator=(const RemoteQueue&) = delete;

  void add(std::function<void()> op) { waiting_.push_back(std::move(op)); }

  // Returns when all of it is done.
  void run() {
    std::unique_lock lock(mutex_);
    running_.swap(waiting_);
    changed_.notify_all();
    changed_.wait(lock, [this] { return running_.empty(); });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !running_.empty(); });
      if (stopping_) return;
      for (const std::function<void()>& op : running_) {
        op();
        ++num_done_;
      }
      running_.clear();
      changed_.notify_all();
    }
  }

  std::atomic<std::uint64_t>& num_done_;
  std::vector<std::function<void()>> waiting_;  // the caller's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire::test
