// A server that does nothing but stream made-up tokens, to find out what a client of thousands of
// streams can take in:  token_fountain --port 8100 --interval-ms 50
//
// Every request gets `max_tokens` events, one an interval, each by a write of its own, the requests
// spread evenly over the interval: as from an engine whose streams are not in step. That is the
// dearest way for a client, for hardly any read brings it two tokens.
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

using Clock = std::chrono::steady_clock;

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

// The number behind `key`, or `otherwise`.
std::size_t number_after(std::string_view text, std::string_view key, std::size_t otherwise) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return otherwise;
  const std::size_t begin = text.find_first_not_of(' ', at + key.size());
  if (begin != std::string_view::npos) {
    std::from_chars(text.data() + begin, text.data() + text.size(), otherwise);
  }
  return otherwise;
}

struct Connection {
  std::string in;
  std::size_t tokens_left = 0;  // 0: it rests
  std::size_t num_tokens = 0;
};

class Fountain {
 public:
  Fountain(std::uint16_t port, std::chrono::microseconds interval)
      : interval_(interval), slots_(kSlots) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ok_ = ::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0 &&
          ::listen(listener_, 65535) == 0;
    watch(listener_);
  }

  bool ok() const { return ok_; }

  void run() {
    // The requests are dealt out to slots; each slot has its moment in the interval.
    auto next = Clock::now();
    for (std::size_t slot = 0;; slot = (slot + 1) % kSlots) {
      next += interval_ / kSlots;
      while (Clock::now() < next) {
        take_in(std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()));
      }
      take_in(std::chrono::milliseconds(0));
      pour(slots_[slot]);
    }
  }

 private:
  static constexpr std::size_t kSlots = 50;

  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void take_in(std::chrono::milliseconds wait) {
    std::array<epoll_event, 512> ready;
    const int count = ::epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()),
                                   static_cast<int>(wait.count()));
    for (int i = 0; i < count; ++i) {
      const int fd = ready[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_) {
        accept_all();
      } else {
        read(fd);
      }
    }
  }

  void accept_all() {
    while (true) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      connections_[fd] = {};
      watch(fd);
    }
  }

  void read(int fd) {
    std::array<char, 16384> bytes;
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      connections_.erase(fd);
      ::close(fd);
      return;
    }
    Connection& connection = connections_[fd];
    connection.in.append(bytes.data(), static_cast<std::size_t>(count));
    const std::size_t head = connection.in.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const std::size_t length = number_after(connection.in, "Content-Length:", 0);
    if (connection.in.size() < head + 4 + length) return;
    answer(fd, connection);
    connection.in.clear();
  }

  void answer(int fd, Connection& connection) {
    if (connection.in.starts_with("POST /v1/completions ")) {
      connection.num_tokens = connection.tokens_left =
          number_after(connection.in, "max_tokens\":", 16);
      send(fd,
           "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
           "Transfer-Encoding: chunked\r\n\r\n");
      slots_[next_slot_++ % kSlots].push_back(fd);
      return;
    }
    const bool models = connection.in.starts_with("GET /v1/models ");
    const std::string_view body = models ? R"({"data":[{"id":"fountain"}]})" : "{}";
    send(fd, fmt::format("HTTP/1.1 {}\r\nContent-Type: application/json\r\n"
                         "Content-Length: {}\r\n\r\n{}",
                         models ? "200 OK" : "404 Not Found", body.size(), body));
  }

  void pour(std::vector<int>& slot) {
    static const std::string kToken = chunk(
        "data: {\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\","
        "\"created\":1700000000,\"model\":\"fountain\",\"choices\":[{\"index\":0,\"text\":\" "
        "word\","
        "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    std::erase_if(slot, [this](int fd) {
      const auto found = connections_.find(fd);
      if (found == connections_.end() || found->second.tokens_left == 0) return true;
      Connection& connection = found->second;
      send(fd, kToken);
      if (--connection.tokens_left > 0) return false;
      send(fd,
           chunk("data: "
                 "{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n") +
               chunk(fmt::format("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,"
                                 "\"completion_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
                                 connection.num_tokens)) +
               "0\r\n\r\n");
      return true;
    });
  }

  // A client that does not keep up is what is to be found out: its stream ends torn.
  void send(int fd, std::string_view bytes) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) return;
    ::shutdown(fd, SHUT_RDWR);
  }

  std::chrono::microseconds interval_;
  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  int listener_ = -1;
  bool ok_ = false;
  std::unordered_map<int, Connection> connections_;
  std::vector<std::vector<int>> slots_;
  std::size_t next_slot_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint16_t port = 8100;
  int interval_ms = 50;
  CLI::App app("Streams made-up tokens to whoever asks");
  app.add_option("--port", port, "on 127.0.0.1")->capture_default_str();
  app.add_option("--interval-ms", interval_ms, "between the tokens of a stream")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  Fountain fountain(port, std::chrono::milliseconds(interval_ms));
  if (!fountain.ok()) {
    fmt::print(stderr, "token_fountain: port {}: {}\n", port, std::strerror(errno));
    return 1;
  }
  fountain.run();
}
