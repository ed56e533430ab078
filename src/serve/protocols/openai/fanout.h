// The prompts of one wire request on their way through the engine: taken in together, aborted
// together, their outputs handed on in one place.
//
// They are one turn in the engine's queue, not a thousand: only a few of them wait there at a time,
// and the next follow as those begin. So who comes after a request of many prompts waits for a few
// of them, not for all. Room for all is set aside from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/service.h"

namespace quire {

class Fanout : public std::enable_shared_from_this<Fanout> {
 public:
  // Called in order, one call at a time: with each piece of each prompt's outputs. One that ends
  // with an error or aborted is the last: the other prompts are aborted.
  using Sink = std::function<void(std::size_t prompt, const RequestOutput& output)>;

  // Takes all requests in or none: after an error none is left running, and `sink` is not called.
  // What comes before open() is kept until then, so that the caller can begin its answer.
  static Result<std::shared_ptr<Fanout>> submit(Service& service, const RequestOrigin& origin,
                                                std::vector<GenerateRequest> requests, Sink sink);

  // Calls `begin`, which begins the answer, and then hands on what has come. Without memory for
  // that it aborts, and throws.
  void open(const std::function<void()>& begin);
  // Ends what still runs. Any thread.
  void abort();

 private:
  enum class State : std::uint8_t { kPending, kWaiting, kBegun, kEnded };

  struct Prompt {
    GenerateRequest request;  // until it has begun: the queue may refuse it, and it comes again
    std::int64_t num_tokens = 0;
    std::int64_t num_outputs = 1;
    RequestId id = 0;  // 0: not known
    State state = State::kPending;
  };

  // What is to be done once the mutex is free.
  struct End {
    std::vector<RequestId> running;
    std::int64_t unused_room = 0;
    Sink sink;
  };

  Fanout(Service& service, RequestOrigin origin, std::vector<GenerateRequest> requests, Sink sink);

  // Submits what the window has room for. An error ends it: kResourceExhausted where the queue
  // refuses the next one for now.
  Status feed();
  void feed_later(DeferredCalls::Clock::duration delay);
  void fail(const Status& error);
  void take(std::size_t index, const RequestOutput& output);
  bool begun();

  // With the mutex held.
  bool room_in_window() const;
  void leave_window(Prompt& prompt, State state);
  void put_back(std::size_t index);
  void hand_on(std::size_t index, const RequestOutput& output);
  End end();
  void carry_out(End end);  // without it

  Service& service_;
  RequestOrigin origin_;
  bool leaves_at_once_ = true;  // every prompt ends with its first step
  std::mutex mutex_;            // guards what follows, and orders the calls of the sink
  Sink sink_;
  bool open_ = false;
  bool over_ = false;     // a prompt has failed, or the client has gone
  bool feeding_ = false;  // feed() runs or is about to
  std::vector<std::pair<std::size_t, RequestOutput>> early_;
  std::vector<Prompt> prompts_;
  std::deque<std::size_t> pending_;
  std::int64_t num_reserved_ = 0;    // outputs of those
  std::int64_t num_waiting_ = 0;     // submitted, not yet begun
  std::int64_t waiting_tokens_ = 0;  // theirs
  std::size_t num_ended_ = 0;
};

}  // namespace quire
