// What a coroutine of the I/O thread sleeps on. (Internal to serve/http; includes Asio.)
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quire {

// A call between two waits is not lost.
class CoroutineEvent {
 public:
  explicit CoroutineEvent(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void notify() {
    notified_ = true;
    timer_.cancel();
  }
  boost::asio::awaitable<void> wait() {
    if (!notified_) {
      timer_.expires_at(boost::asio::steady_timer::time_point::max());
      co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    notified_ = false;
  }

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

}  // namespace quire
