#include "serve/http/workers.h"

#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "base/thread.h"

namespace quire {

Workers::Workers(int num_threads) : tasks_(num_threads), more_(tasks_.get_executor()) {
  threads_.reserve(static_cast<std::size_t>(num_threads));
  try {
    for (int i = 0; i < num_threads; ++i) {
      threads_.push_back(new_thread("quire-worker", [this] { run(); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

void Workers::post(std::function<void()> task) { boost::asio::post(tasks_, std::move(task)); }

void Workers::stop() {
  tasks_.stop();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  while (!tasks_.stopped()) {
    try {
      tasks_.run();
    } catch (const std::exception& error) {
      log_warning("a handler failed: {}", error.what());
    }
  }
}

}  // namespace quire
