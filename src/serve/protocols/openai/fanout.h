// The prompts of one wire request on their way through the engine: submitted together, aborted
// together, their outputs handed on in one place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/service.h"

namespace quire {

class Fanout : public std::enable_shared_from_this<Fanout> {
 public:
  // Called in order, one call at a time: with each piece of each prompt's outputs.
  using Sink = std::function<void(std::size_t prompt, const RequestOutput& output)>;

  // Submits all requests. After an error none is left running, and `sink` is not called. What comes
  // before open() is kept until then, so that the caller can begin its answer.
  static Result<std::shared_ptr<Fanout>> submit(Service& service, const RequestOrigin& origin,
                                                std::vector<GenerateRequest> requests, Sink sink);

  void open();
  // Ends what still runs. Any thread.
  void abort();

 private:
  Fanout(Service& service, Sink sink) : service_(service), sink_(std::move(sink)) {}
  void take(std::size_t prompt, const RequestOutput& output);

  Service& service_;
  std::mutex mutex_;  // guards what follows, and orders the calls of the sink
  Sink sink_;
  bool open_ = false;
  bool aborted_ = false;
  std::vector<std::pair<std::size_t, RequestOutput>> early_;
  std::vector<RequestId> ids_;
  std::size_t num_requests_ = 0;
  std::size_t num_finished_ = 0;
};

}  // namespace quire
