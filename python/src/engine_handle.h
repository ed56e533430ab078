// An engine as Python holds it: every call gives up the GIL before it takes a lock or waits, an
// engine that was closed says so, and so does one that a fork has left without its threads.
#pragma once

#include <cstdint>
#include <memory>
#include <nanobind/nanobind.h>
#include <shared_mutex>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "apps/model_server.h"
#include "engine/api.h"
#include "errors.h"
#include "gil.h"
#include "inbox.h"
#include "logits_callable.h"
#include "serve/why/request_directory.h"
#include "step_ring.h"

namespace quire::python {

// What its threads end by themselves, or a fork has left without them: nobody else gives it back.
template <typename T>
T* leak(T value) {
  return std::make_unique<T>(std::move(value)).release();
}

// How a request is continued, checked once and used by any number of requests.
struct NativeParams {
  // `text`: an object of sampling fields. Of token ids nothing is known yet but that they are not
  // negative. `to_the_end`: max_tokens is what is left of the context. Errors as of
  // SamplingParams::validate.
  static Result<NativeParams> read(std::string_view text, bool to_the_end);

  SamplingParams params;
  bool to_the_end = false;
};

class EngineHandle {
 public:
  // `settings`: the JSON of engine_settings.h. Logs its notes.
  static std::unique_ptr<EngineHandle> create(const std::string& settings);
  // Ends the engine, but in a process that a fork made: its threads are not there to be joined.
  ~EngineHandle();

  // What runs is aborted, memory and threads are given back; waits for calls that others make.
  // Again: nothing. A server of it has to be closed before.
  void close();
  bool closed() const;
  // kUnavailable in a process that a fork made, and within a logits processor, which the engine
  // waits for.
  Status check_caller() const;

  // The engine's number of the request, whose outputs go to `inbox` under `key`.
  // `queue_fields`: an object with some of kQueueFields as JSON, or nothing. `logits_processor`:
  // None, or called as LogitsCallable says.
  RequestId submit(Inbox& inbox, std::uint64_t key, std::vector<TokenId> prompt,
                   const NativeParams& params, const std::string& queue_fields, bool embed,
                   std::string external_id, nanobind::object logits_processor);
  void abort(RequestId request_id);
  // What a request did with its time, by its external id: JSON, a list with one entry for each of
  // its outputs ("story_json"). kNotFound.
  std::string why(const std::string& external_id);
  // The engine between two steps, with at most so many of the requests that run and wait: JSON.
  std::string state(std::size_t most);

  // For a server, which may go on to use it when this is closed.
  EngineToServe to_serve();

  // Its last steps (step_ring.h), as JSON or as a page; also when it is closed.
  std::string timeline(bool as_page) const;

  // What `call` makes of the engine, a Result.
  template <typename Call>
  auto run(Call&& call) {
    check(check_caller());
    decltype(call(std::declval<Engine&>())) result = closed_error();
    {
      const WithoutGil released;
      const std::shared_lock lock(mutex_);
      if (parts_.engine) result = call(*parts_.engine);
    }
    return value_of(std::move(result));
  }

 private:
  EngineHandle(EngineToServe parts, std::shared_ptr<const StepRing> steps);
  std::shared_ptr<Engine> take_engine();  // null where it is closed; waits for calls
  static Status closed_error();
  // Null for None. Raises ImportError without numpy, kUnimplemented where tokens are made up.
  std::shared_ptr<LogitsProcessor> processor_of(nanobind::object call);

  const ::pid_t process_;
  mutable std::shared_mutex mutex_;  // shared while a call uses the engine
  // Of requests' stories; sinks of the engine know it.
  std::shared_ptr<RequestDirectory> directory_ = std::make_shared<RequestDirectory>();
  std::shared_ptr<const StepRing> steps_;
  EngineToServe parts_;  // its engine is null once this is closed
  std::int32_t max_num_seqs_;
  std::string model_name_;
  std::shared_ptr<LogitsRow> logits_row_;  // once a request had a processor; under the GIL
};

// What an engine says of itself, and its numbers: JSON.
json::object info_json(const EngineInfo& info);
json::object stats_json(const EngineStats& stats);
json::object output_state_json(const OutputState& output, Instant now);

}  // namespace quire::python
