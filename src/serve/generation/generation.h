// One wire request of any protocol as it is generated: its prompts go through the engine together,
// their pieces come to one place in order, and what goes wrong with one ends all, once.
//
// Its prompts are one turn in the engine's queue, not a thousand: only a few of them wait there at
// a time, and the next follow as those begin. So who comes after a request of many prompts waits
// for a few of them, not for all. Room for all is set aside from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "serve/http/exchange.h"
#include "serve/models/served_model.h"

namespace quire {

// The answer to a request, in its protocol's words. Called in order, one call at a time, on the
// engine's output thread but for what generate() calls at once; must not block.
class GenerationAnswer {
 public:
  virtual ~GenerationAnswer() = default;

  // The request was refused: the only call.
  virtual void refused(const Status& error) = 0;
  // All its prompts were accepted; pieces follow.
  virtual void begun() {}
  // A piece of one of a prompt's outputs. `last`: nothing more comes, all of them have ended.
  virtual void piece(std::size_t prompt, const RequestOutput& output, bool last) = 0;
  // An output has failed or was aborted, and with it all: the last call.
  virtual void failed(const Status& error) = 0;
};

// Submits a request's prompts and answers on `exchange` as their outputs come; a client that goes
// away aborts them. Any thread but the output thread. Where their constraint has to be compiled
// first, that and all else is done later, on a thread of ServedModel::preparations().
void generate(ServedModel& model, std::shared_ptr<Exchange> exchange, RequestOrigin origin,
              std::vector<GenerateRequest> prompts, std::shared_ptr<GenerationAnswer> answer);

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Accepts all requests or none: after an error none is left running, and `answer` is not called.
  // What comes before open() is kept until then, so that the caller can begin its answer.
  static Result<std::shared_ptr<Generation>> submit(ServedModel& model, const RequestOrigin& origin,
                                                    std::vector<GenerateRequest> requests,
                                                    std::shared_ptr<GenerationAnswer> answer);

  // Calls `begin`, which begins the answer, and then hands on what has come. Without memory for
  // that it aborts, and throws.
  void open(const std::function<void()>& begin);
  // Ends what still runs. Any thread.
  void abort();

 private:
  enum class State : std::uint8_t { kPending, kWaiting, kBegun, kEnded };

  // What came before open().
  struct Early {
    std::size_t prompt = 0;
    RequestOutput output;
    bool last = false;
  };

  struct Prompt {
    GenerateRequest request;  // until it has begun: the queue may refuse it, and it comes again
    std::int64_t num_tokens = 0;
    std::int64_t num_outputs = 1;
    RequestId id = 0;  // 0: not known, or aborted
    State state = State::kPending;
  };

  // What is to be done once the mutex is free. No memory is needed for it: what ends may lack it.
  struct End {
    bool over = false;  // prompts that still run are aborted
    std::int64_t unused_room = 0;
    std::shared_ptr<GenerationAnswer> answer;
  };

  Generation(ServedModel& model, RequestOrigin origin, std::vector<GenerateRequest> requests,
             std::shared_ptr<GenerationAnswer> answer);

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
  void tell(std::size_t index, const RequestOutput& output, bool last);
  End end();
  void carry_out(End end);  // without it

  ServedModel& model_;
  RequestOrigin origin_;
  bool leaves_at_once_ = true;  // every prompt ends with its first step
  std::mutex mutex_;            // guards what follows, and orders the calls of the answer
  std::shared_ptr<GenerationAnswer> answer_;  // until its last call
  bool open_ = false;
  bool over_ = false;     // a prompt has failed, or the client has gone
  bool feeding_ = false;  // feed() runs or is about to
  std::vector<Early> early_;
  std::vector<Prompt> prompts_;
  std::deque<std::size_t> pending_;
  std::int64_t num_reserved_ = 0;    // outputs of those
  std::int64_t num_waiting_ = 0;     // submitted, not yet begun
  std::int64_t waiting_tokens_ = 0;  // theirs
  std::size_t num_ended_ = 0;
};

}  // namespace quire
