#include "server_handle.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <utility>

#include "apps/model_server.h"
#include "base/thread.h"
#include "server_settings.h"

namespace quire::python {

// The server until it has ended, and the thread that it has then.
class ServerHandle::Running {
 public:
  explicit Running(std::unique_ptr<ModelServer> server) : server_(std::move(server)) {}

  const ModelServer& server() const { return *server_; }

  static Status start(const std::shared_ptr<Running>& self, EngineToServe engine) {
    const std::lock_guard lock(self->mutex_);
    if (!self->server_) return Status::unavailable("the server is closed", "call quire.serve()");
    Status status = self->server_->serve(std::move(engine));
    if (status.ok()) {
      constexpr std::chrono::milliseconds kHeartbeatCheck(1000);
      self->server_->every(kHeartbeatCheck, [server = self->server_.get()] {
        (void)server->check_heartbeat().ok();  // looked at, so that /health knows
      });
      auto thread = start_thread("quire-serve", [self] { self->run(); });
      status = thread.status();
      if (status.ok()) self->thread_ = *std::move(thread);
    }
    if (!status.ok()) self->server_.reset();
    return status;
  }

  void shut_down(std::optional<double> timeout_s) {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable() && server_) {
      server_->shut_down(timeout_s);
    } else {
      server_.reset();  // it never began
    }
  }

  bool wait(Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return ended(); });
    if (!ended()) return false;
    if (thread_.joinable()) thread_.join();
    return true;
  }

  // What ends later ends by itself.
  void leave() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.detach();
  }

 private:
  // With the mutex held.
  bool ended() const { return !server_ && !ending_; }

  void run() {
    server_->run();
    std::unique_ptr<ModelServer> ended;
    {
      const std::lock_guard lock(mutex_);
      ended = std::move(server_);
      ending_ = true;
    }
    ended.reset();  // waits for the engine
    const std::lock_guard lock(mutex_);
    ending_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<ModelServer> server_;  // null: it ends, or has ended
  bool ending_ = false;
  std::thread thread_;
};

ServerHandle::ServerHandle(std::shared_ptr<Running> running, std::string engine_settings)
    : process_(::getpid()),
      address_(running->server().address()),
      port_(running->server().port()),
      engine_settings_(std::move(engine_settings)),
      running_(std::move(running)) {}

std::unique_ptr<ServerHandle> ServerHandle::listen(const std::string& settings, bool with_engine) {
  Result<ServerSettings> read = Status::internal("not read");
  Result<std::unique_ptr<ModelServer>> server = Status::internal("not opened");
  {
    const WithoutGil released;
    read = read_server_settings(settings, with_engine);
    server = read.ok() ? ModelServer::listen(read->flags) : read.status();
  }
  auto running = std::make_shared<Running>(value_of(std::move(server)));
  return std::unique_ptr<ServerHandle>(
      new ServerHandle(std::move(running), std::move(read->engine_settings)));
}

ServerHandle::~ServerHandle() {
  if (::getpid() != process_) {
    leak(std::move(running_));
    return;
  }
  const WithoutGil released;
  running_->shut_down(0);
  if (LogitsCallable::is_calling()) {
    running_->leave();
    return;
  }
  constexpr Duration kAWhile = std::chrono::hours(1);
  while (!running_->wait(kAWhile)) {
  }
}

void ServerHandle::serve(EngineHandle& engine) {
  EngineToServe parts = engine.to_serve();
  Status status;
  {
    const WithoutGil released;
    status = Running::start(running_, std::move(parts));
  }
  check(status);
}

void ServerHandle::shut_down(std::optional<double> timeout_s) {
  if (::getpid() != process_) return;
  if (LogitsCallable::is_calling()) {
    raise(Status::unavailable("a logits processor closes the server of its engine",
                              "close it from another thread, and do not wait"));
  }
  const WithoutGil released;
  running_->shut_down(timeout_s);
}

bool ServerHandle::wait(double timeout_s) {
  if (::getpid() != process_) return true;
  const WithoutGil released;
  return running_->wait(Duration(static_cast<std::int64_t>(timeout_s * 1e9)));
}

}  // namespace quire::python
