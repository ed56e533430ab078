// Threads that run handlers: what they may take their time for. (Internal to serve/http; includes
// Asio.)
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace quire {

class Workers {
 public:
  // Throws as new_thread() (base/thread.h) does; then no thread is left.
  explicit Workers(int num_threads);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Tasks begin in the order of their calls. Any thread. One that throws is over, as far as that
  // goes, and the log says so.
  void post(std::function<void()> task);
  // Drops the tasks that have not begun and waits for those that have.
  void stop();

 private:
  void run();

  boost::asio::io_context tasks_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> more_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
