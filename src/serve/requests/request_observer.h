// Whose request it is that the engine is given, and who wants to be told what becomes of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engine/api.h"

namespace quire {

struct RequestOrigin;

// Follows one wire request, which may have several prompts, through the engine.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  // A prompt is about to be queued. Returns the number by which the calls below name it.
  virtual std::size_t submitting(const RequestOrigin& origin, const GenerateRequest& request) = 0;
  // The engine has refused it: nothing more will be heard of it.
  virtual void refused(std::size_t prompt) = 0;
  // One of its outputs has ended: `output` is the last piece. Output thread; must not block.
  virtual void finished(std::size_t prompt, const RequestOutput& output) = 0;
};

struct RequestOrigin {
  std::string external_id;  // by which clients and the log know it
  std::string caller = {};  // HttpRequest::caller
  std::string model = {};   // as the request names it
  bool stream = false;      // the answer is streamed
  // When its last byte came; nothing for a request that did not come over a connection.
  std::optional<std::chrono::steady_clock::time_point> received = {};
  std::shared_ptr<RequestObserver> observer = nullptr;  // null: nobody wants to know
};

}  // namespace quire
