#include "serve_load/load_client.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire::load {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

LoadClient::LoadClient(const std::string& address, std::uint16_t port, int max_open)
    : address_(address),
      port_(port),
      max_open_(max_open),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      buffer_(kReadBytes) {}

LoadClient::~LoadClient() {
  close_all();
  ::close(epoll_);
}

std::size_t LoadClient::add(ClientPlan plan, bool background) {
  clients_.emplace_back(std::move(plan), background);
  if (!background) ++num_pending_;
  return clients_.size() - 1;
}

Status LoadClient::run(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::array<epoll_event, 512> ready;
  while (true) {
    start_clients();
    if (num_pending_ == 0 || Clock::now() >= deadline) return {};
    const int count =
        ::epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), wait_ms(deadline));
    if (count < 0 && errno != EINTR) {
      return Status::io_error(fmt::format("epoll_wait: {}", std::strerror(errno)));
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<std::size_t>(i)];
      on_ready(event.data.u64, event.events);
    }
    fire_timers();
  }
}

void LoadClient::close_all() {
  for (Client& client : clients_) {
    if (client.fd < 0) continue;
    ::close(client.fd);
    client.fd = -1;
    --num_open_;
    note_counts(client);
    if (!client.background) --num_pending_;
  }
}

std::int64_t LoadClient::num_events() const {
  std::int64_t sum = 0;
  for (const Client& client : clients_) sum += client.scanner.num_events();
  return sum;
}

std::int64_t LoadClient::num_bytes() const {
  std::int64_t sum = 0;
  for (const Client& client : clients_) sum += client.result.bytes;
  return sum;
}

void LoadClient::start_clients() {
  while (next_ < clients_.size() && num_open_ < max_open_) start(next_++);
}

void LoadClient::start(std::size_t index) {
  Client& client = clients_[index];
  client.connected = false;
  client.num_sent = 0;
  client.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (client.fd < 0) return end(index, Ending::kRefused, std::strerror(errno));
  ++num_open_;
  set_option(client.fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (client.plan.byte_interval) set_option(client.fd, SOL_SOCKET, SO_RCVBUF, 1);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  if (::inet_pton(AF_INET, address_.c_str(), &to.sin_addr) != 1) {
    return end(index, Ending::kRefused, fmt::format("{} is no IPv4 address", address_));
  }
  const int failed = ::connect(client.fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  if (failed != 0 && errno != EINPROGRESS) {
    return end(index, Ending::kRefused, std::strerror(errno));
  }
  client.waits_to_write = true;
  watch(index, EPOLLOUT, true);
}

void LoadClient::watch(std::size_t index, std::uint32_t events, bool add) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = index;
  ::epoll_ctl(epoll_, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, clients_[index].fd, &event);
}

void LoadClient::on_ready(std::size_t index, std::uint32_t events) {
  Client& client = clients_[index];
  if (client.fd < 0) return;
  if (!client.connected) {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(client.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return end(index, Ending::kRefused, std::strerror(error));
    client.connected = true;
  }
  if (client.waits_to_write) {
    send_request(index);
    return;  // what is there to read shows again
  }
  if (client.plan.byte_interval) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) end(index, Ending::kClosed, "reset");
    return;
  }
  read(index);
}

void LoadClient::send_request(std::size_t index) {
  Client& client = clients_[index];
  const std::string& request = client.plan.request;
  const std::size_t end_at =
      std::min(client.plan.leave_after_sent.value_or(request.size()), request.size());
  while (client.num_sent < end_at) {
    const ssize_t sent =
        ::send(client.fd, request.data() + client.num_sent, end_at - client.num_sent, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN) {
        watch(index, EPOLLOUT, false);
        client.waits_to_write = true;
        return;
      }
      if (errno == EINTR) continue;
      break;  // the server has closed; what it said before is read
    }
    client.num_sent += static_cast<std::size_t>(sent);
  }
  if (client.plan.leave_after_sent) return leave(index);
  const auto now = Clock::now();
  client.result.sent = now;
  if (client.plan.leave_after) timers_.push({now + *client.plan.leave_after, index, true});
  if (client.plan.byte_interval) {
    timers_.push({now + *client.plan.byte_interval, index, false});
    watch(index, 0, false);  // errors only
  } else if (client.waits_to_write) {
    watch(index, EPOLLIN, false);
  }
  client.waits_to_write = false;
}

void LoadClient::read(std::size_t index) {
  Client& client = clients_[index];
  while (client.fd >= 0) {
    const ssize_t count = ::recv(client.fd, buffer_.data(), buffer_.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    const auto now = Clock::now();
    if (count <= 0) {
      client.scanner.close();
      if (client.scanner.done()) return answer_done(index);
      return end(index, Ending::kClosed, count < 0 ? std::strerror(errno) : "closed");
    }
    if (!take(index, {buffer_.data(), static_cast<std::size_t>(count)}, now)) return;
    if (static_cast<std::size_t>(count) < buffer_.size()) return;
  }
}

void LoadClient::read_byte(std::size_t index) {
  Client& client = clients_[index];
  char byte = 0;
  const ssize_t count = ::recv(client.fd, &byte, 1, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    return end(index, Ending::kClosed, count < 0 ? std::strerror(errno) : "closed");
  }
  const auto now = Clock::now();
  if (count > 0 && !take(index, {&byte, 1}, now)) return;
  timers_.push({now + *client.plan.byte_interval, index, false});
}

bool LoadClient::take(std::size_t index, std::string_view bytes, Clock::time_point now) {
  Client& client = clients_[index];
  client.result.bytes += std::ssize(bytes);
  const std::int64_t before = client.scanner.num_events();
  const std::size_t used = client.scanner.feed(bytes);
  const std::int64_t events = client.scanner.num_events();
  if (client.plan.record_times) {
    client.result.event_times.insert(client.result.event_times.end(),
                                     static_cast<std::size_t>(events - before), now);
  }
  if (!client.scanner.error().empty()) {
    end(index, Ending::kMalformed, client.scanner.error());
    return false;
  }
  if (client.plan.leave_after_events && events >= *client.plan.leave_after_events) {
    leave(index);
    return false;
  }
  if (!client.scanner.done()) return true;
  if (used < bytes.size()) {
    end(index, Ending::kMalformed, "bytes behind the answer");
    return false;
  }
  answer_done(index);
  return client.fd >= 0;
}

void LoadClient::answer_done(std::size_t index) {
  Client& client = clients_[index];
  ClientResult& result = client.result;
  ResponseScanner& scanner = client.scanner;
  ++result.num_answers;
  if (scanner.stream_done()) ++result.num_streams_done;
  if (scanner.status() != 200) ++result.num_bad_status;
  result.completion_tokens += std::max<std::int64_t>(scanner.completion_tokens(), 0);
  if (result.num_answers >= client.plan.num_requests) return end(index, Ending::kAnswered);
  const bool keep = scanner.keep_alive();
  scanner.next();
  client.num_sent = 0;
  if (keep) return send_request(index);
  ::close(client.fd);
  --num_open_;
  start(index);
}

void LoadClient::end(std::size_t index, Ending ending, std::string error) {
  Client& client = clients_[index];
  if (client.fd >= 0) {
    ::close(client.fd);
    client.fd = -1;
    --num_open_;
  }
  ClientResult& result = client.result;
  result.ending = ending;
  result.error = std::move(error);
  note_counts(client);
  if (client.plan.keep_body) result.body = client.scanner.body();
  if (!client.background) --num_pending_;
}

void LoadClient::note_counts(Client& client) {
  client.result.status = client.scanner.status();
  client.result.num_events = client.scanner.num_events();
  client.result.num_comments = client.scanner.num_comments();
  client.result.num_errors = client.scanner.num_errors();
}

void LoadClient::leave(std::size_t index) {
  const Client& client = clients_[index];
  if (client.plan.reset) {
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  end(index, Ending::kLeft);
}

void LoadClient::fire_timers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.top().when <= now) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (clients_[timer.client].fd < 0) continue;  // it has ended meanwhile
    if (timer.leaves) {
      leave(timer.client);
    } else {
      read_byte(timer.client);
    }
  }
}

int LoadClient::wait_ms(Clock::time_point deadline) const {
  const auto until = timers_.empty() ? deadline : std::min(deadline, timers_.top().when);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
}

}  // namespace quire::load
