// Thousands of HTTP clients on one thread, over epoll: each connects, sends what it was told to,
// reads as fast or as slowly as it was told to, and may go away at any moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve_load/response_scanner.h"

namespace quire::load {

using Clock = std::chrono::steady_clock;

// What one client does.
struct ClientPlan {
  std::string request;     // the bytes that it sends, head and body
  int num_requests = 1;    // as often, one after the other, on one connection where that is kept
  bool keep_body = false;  // the body of the last answer goes into the result
  bool record_times = false;

  // When it goes away; the first of these that comes true. None: when it has its answers.
  std::optional<std::size_t> leave_after_sent = std::nullopt;  // so many bytes
  std::optional<std::int64_t> leave_after_events = std::nullopt;
  std::optional<std::chrono::microseconds> leave_after =
      std::nullopt;    // its request was sent completely
  bool reset = false;  // it leaves with RST instead of FIN

  // Set: it takes one byte each time this has passed, with a receive buffer as small as they get.
  std::optional<std::chrono::milliseconds> byte_interval = std::nullopt;
};

enum class Ending : std::uint8_t {
  kNone,       // it was still at it when the run's time was up
  kAnswered,   // all its answers came
  kLeft,       // it went away as planned
  kClosed,     // the server closed or reset the connection before the answer's end
  kMalformed,  // what came is no HTTP
  kRefused,    // it could not connect
};

struct ClientResult {
  Ending ending = Ending::kNone;
  int status = 0;  // of the last answer; 0: none came
  std::int64_t num_answers = 0;
  std::int64_t num_streams_done = 0;  // of them: with [DONE]
  std::int64_t num_bad_status = 0;    // of them: not 200
  std::int64_t num_events = 0;
  std::int64_t num_comments = 0;
  std::int64_t num_errors = 0;         // events that carry an error
  std::int64_t completion_tokens = 0;  // as the answers' usage says; summed
  std::int64_t bytes = 0;              // received
  std::string body;
  std::string error;
  Clock::time_point sent{};                    // when the (last) request had been sent
  std::vector<Clock::time_point> event_times;  // if recorded
};

class LoadClient {
 public:
  // To an IPv4 address. At most `max_open` connections at once.
  LoadClient(const std::string& address, std::uint16_t port, int max_open);
  ~LoadClient();
  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  // Clients start in this order, as soon as there is room; `background` ones are not waited for.
  // Returns its number.
  std::size_t add(ClientPlan plan, bool background = false);

  // Runs until every client that is not in the background has ended, or the time is up. May be
  // called again, also after more were added.
  Status run(std::chrono::milliseconds limit);
  // Closes what is open; those clients end as kNone.
  void close_all();

  const ClientResult& result(std::size_t client) const { return clients_[client].result; }
  std::size_t num_clients() const { return clients_.size(); }
  int num_open() const { return num_open_; }
  // Of all clients, so far.
  std::int64_t num_events() const;
  std::int64_t num_bytes() const;

 private:
  struct Client {
    explicit Client(ClientPlan what, bool is_background)
        : plan(std::move(what)), background(is_background), scanner(plan.keep_body) {}
    ClientPlan plan;
    bool background;
    ResponseScanner scanner;
    ClientResult result;
    int fd = -1;
    bool connected = false;
    bool waits_to_write = false;
    std::size_t num_sent = 0;  // bytes of the request
  };
  struct Timer {
    Clock::time_point when;
    std::size_t client;
    bool leaves;                                                            // else it reads a byte
    bool operator<(const Timer& other) const { return when > other.when; }  // the first one on top
  };

  void start_clients();
  void start(std::size_t index);
  void on_ready(std::size_t index, std::uint32_t events);
  void send_request(std::size_t index);
  void read(std::size_t index);
  void read_byte(std::size_t index);
  // Takes bytes in; false once the client has ended.
  bool take(std::size_t index, std::string_view bytes, Clock::time_point now);
  void answer_done(std::size_t index);
  void end(std::size_t index, Ending ending, std::string error = {});
  void leave(std::size_t index);
  static void note_counts(Client& client);
  void watch(std::size_t index, std::uint32_t events, bool add);
  void fire_timers();
  int wait_ms(Clock::time_point deadline) const;

  std::string address_;
  std::uint16_t port_;
  int max_open_;
  int epoll_;
  int num_open_ = 0;
  std::size_t num_pending_ = 0;  // not in the background and not ended
  std::size_t next_ = 0;         // the first client that has not started
  std::deque<Client> clients_;
  std::priority_queue<Timer> timers_;
  std::vector<char> buffer_;
};

}  // namespace quire::load
