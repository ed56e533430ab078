#include "serve/requests/engine_requests.h"

#include <future>
#include <vector>

#include "base/exhaustion.h"
#include "engine/api.h"

namespace quire {

EngineRequests::Ticket::Ticket(EngineRequests& all) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  all_.tickets_.insert(this);
}

EngineRequests::Ticket::~Ticket() {
  const std::lock_guard lock(all_.mutex_);
  all_.tickets_.erase(this);
  // With the mutex locked: who waits for this may end right after.
  if (all_.tickets_.empty()) all_.none_left_.notify_all();
}

void EngineRequests::Ticket::taken(RequestId id) {
  const std::lock_guard lock(all_.mutex_);
  id_ = id;
}

void EngineRequests::end(Engine& engine) {
  // Not while the mutex is locked: the engine may have to deliver outputs before it reads an abort.
  until_memory([&] {
    std::vector<RequestId> ids;
    {
      const std::lock_guard lock(mutex_);
      for (const Ticket* ticket : tickets_) ids.push_back(ticket->id_);
    }
    for (const RequestId id : ids) {
      if (id != 0) engine.abort(id);
    }
  });
  {
    std::unique_lock lock(mutex_);
    none_left_.wait(lock, [this] { return tickets_.empty(); });
  }
  until_memory([&] {
    const auto looked = std::make_shared<std::promise<void>>();
    engine.inspect([looked](const EngineState* /*state*/) { looked->set_value(); });
    looked->get_future().wait();
  });
}

}  // namespace quire
