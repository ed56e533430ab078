// The requests that one user of an engine has in it, where the engine outlives that user or has
// requests of others, too: at the user's end its own are aborted, and the engine lets go of their
// sinks before it returns.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "base/ids.h"

namespace quire {

class Engine;

class EngineRequests {
 public:
  // One request, as long as this lives: its sink owns it, and destroys it last of all that it
  // owns.
  class Ticket {
   public:
    explicit Ticket(EngineRequests& all);
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    // The engine has accepted it.
    void taken(RequestId id);

   private:
    friend class EngineRequests;
    EngineRequests& all_;
    RequestId id_ = 0;  // 0: not known yet
  };

  // Aborts all of them and waits until none is left, and until what the engine was asked before
  // this, by Engine::inspect(), has been answered. Nobody submits any more. Not on a thread of the
  // engine's.
  void end(Engine& engine);

 private:
  std::mutex mutex_;  // guards what follows, and the tickets' numbers
  std::condition_variable none_left_;
  std::unordered_set<Ticket*> tickets_;
};

}  // namespace quire
