// Runs the batches: one thread that feeds their lines to the handlers that serve the endpoints, a
// bounded number at a time, the oldest batch first, and stores what they answer.
//
// A line that is answered 429 or 503 is tried again; a storage that fails (a full disk) makes the
// worker wait with what it has, so that nothing that was stored is lost and no line runs in vain.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/protocols/openai/batch/batch_store.h"
#include "serve/protocols/openai/batch/batch_types.h"
#include "serve/protocols/openai/batch/collected_exchange.h"
#include "serve/protocols/openai/batch/file_store.h"

namespace quire {

// The handler of "/v1/chat/completions" and so on; null where this server does not have it. What it
// points to lives as long as the worker.
using EndpointHandlers = std::function<const HttpHandler*(std::string_view endpoint)>;
using UnixClock = std::function<std::int64_t()>;

class BatchWorker {
 public:
  // Borrows the stores and the limits.
  BatchWorker(FileStore& files, BatchStore& batches, const BatchLimits& limits,
              EndpointHandlers handlers, UnixClock now);
  ~BatchWorker();
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  // kUnavailable where the system has no thread for it.
  Status start();
  // Aborts the lines in flight, stores those that are done and ends the thread. The batches go on
  // when a worker starts on the same database. Any thread, also more than once.
  void stop();
  // Something has changed in the store. Any thread.
  void wake();

 private:
  class Inbox;
  struct Running;
  using SteadyTime = std::chrono::steady_clock::time_point;

  void run();
  void begin_anew();
  bool run_once();  // false: the storage failed
  void take_answers();
  Status store_results();
  Status step(const BatchInfo& batch);
  Status expire(const BatchInfo& batch, Running& running);
  Status advance(const BatchInfo& batch, Running& running);
  Status finish(const BatchInfo& batch, std::string_view status);
  Status launch(const BatchInfo& batch, Running& running, BatchInputLine line);
  void abort_lines(Running& running);
  std::optional<BatchInputLine> next_line(const BatchInfo& batch, Running& running, Status& status);
  std::chrono::milliseconds idle_time() const;

  FileStore& files_;
  BatchStore& batches_;
  const BatchLimits& limits_;
  EndpointHandlers handlers_;
  UnixClock now_;
  std::shared_ptr<Inbox> inbox_;
  std::mutex thread_mutex_;
  std::thread thread_;
  std::atomic<bool> stop_ = false;

  // The thread's own.
  std::map<std::int64_t, Running> running_;  // by the batch's row
  int num_in_flight_ = 0;
  std::vector<LineResult> unsaved_;
  SteadyTime paused_until_{};  // the server was full
  std::string storage_problem_;
};

}  // namespace quire
