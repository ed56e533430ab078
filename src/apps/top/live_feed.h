// The events of a server's GET /engine/live, received on a thread of its own, which connects again
// after a connection has ended.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "apps/chat/http_client.h"

namespace quire {

class LiveFeed {
 public:
  // Begins to receive `hz` events a second. `notify` is called, on the feed's thread, whenever
  // take() has something new. Throws as new_thread() does.
  LiveFeed(HttpClient client, double hz, std::function<void()> notify);
  ~LiveFeed();

  struct News {
    std::optional<std::string> event;  // the data of the latest one
    Status connection;                 // ok, or why there is none now
  };
  // What is new since the last call.
  News take();

 private:
  void run(const std::stop_token& stop);
  void tell(std::optional<std::string> event, Status connection);

  HttpClient client_;
  std::string path_;
  std::function<void()> notify_;
  std::mutex mutex_;
  News news_;
  std::stop_source stop_;
  std::thread thread_;  // last: it uses all of the above
};

// The stream's address below the server's.
std::string live_path(double hz);
// An error of the stream, worded for who asked for it.
Status live_error(const Status& status, std::string_view base_url);

}  // namespace quire
