#include "serve/protocols/openai/batch/batch_worker.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

#include "base/exhaustion.h"
#include "base/log.h"
#include "base/thread.h"
#include "serve/http/http_error.h"
#include "serve/protocols/openai/api_error.h"
#include "serve/protocols/openai/batch/batch_line.h"
#include "serve/protocols/openai/batch/batch_validator.h"

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kLinesPerRead = 64;
constexpr std::int64_t kExpiredPerTransaction = 500;
constexpr milliseconds kTick{500};  // while there is a batch: to see its window pass
constexpr seconds kIdleTick{30};
constexpr seconds kStorageRetry{2};
constexpr std::int64_t kMaxRetryAfter = 30;

bool try_again(int http_status) { return http_status == 429 || http_status == 503; }

seconds retry_after(const HttpResponse& response) {
  std::int64_t value = 1;
  for (const HttpHeader& header : response.headers) {
    if (header.name != "Retry-After") continue;
    const char* const end = header.value.data() + header.value.size();
    if (std::from_chars(header.value.data(), end, value).ec != std::errc()) value = 1;
  }
  return seconds(std::clamp<std::int64_t>(value, 1, kMaxRetryAfter));
}

HttpResponse stream_refused() {
  ApiError error;
  error.message = "stream: a batch's answers are not streamed; leave the field out";
  error.param = "stream";
  error.code = "unsupported_parameter";
  return error_response(error);
}

}  // namespace

// Where the handlers' answers wait for the worker. It outlives the worker for as long as a handler
// owns an exchange.
class BatchWorker::Inbox {
 public:
  struct Answer {
    std::int64_t batch_row;
    std::int64_t line;
    HttpResponse response;
  };

  void push(Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    changed_.notify_one();
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  std::vector<Answer> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answers_, {});
  }
  void wait(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return woken_ || !answers_.empty(); });
    woken_ = false;
  }
  // Also while answers wait: they cannot be stored.
  void wait_for_wake(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return woken_; });
    woken_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::vector<Answer> answers_;
};

// A batch in progress.
struct BatchWorker::Running {
  struct InFlight {
    BatchInputLine line;
    std::shared_ptr<CollectedExchange> exchange;
  };
  std::string id;
  FileInfo input;
  std::map<std::int64_t, InFlight> in_flight;  // by line
  std::deque<BatchInputLine> waiting;          // read or given back, not in flight
  std::int64_t last_read = 0;                  // the lines after this one were not yet read
  bool all_read = false;
};

BatchWorker::BatchWorker(FileStore& files, BatchStore& batches, const BatchLimits& limits,
                         EndpointHandlers handlers, UnixClock now)
    : files_(files),
      batches_(batches),
      limits_(limits),
      handlers_(std::move(handlers)),
      now_(std::move(now)),
      inbox_(std::make_shared<Inbox>()) {}

BatchWorker::~BatchWorker() { stop(); }

Status BatchWorker::start() {
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable() || stop_) return {};
  QUIRE_ASSIGN_OR_RETURN(thread_, start_thread("quire-batches", [this] { run(); }));
  return {};
}

void BatchWorker::stop() {
  stop_ = true;
  wake();
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
}

void BatchWorker::wake() { inbox_->wake(); }

void BatchWorker::run() {
  while (!stop_) {
    bool stored = false;
    try {
      stored = run_once();
    } catch (const std::bad_alloc&) {
      begin_anew();
    }
    if (stored) {
      inbox_->wait(idle_time());
    } else if (!stop_) {
      inbox_->wait_for_wake(kStorageRetry);
    }
  }
  take_answers();
  for (auto& [row, running] : running_) abort_lines(running);
  if (const Status status = store_results(); !status.ok()) {
    log_warning("batches: the last results are not stored, their lines will run again: {}",
                status.to_string());
  }
}

// Without memory half-way: as after a restart, the store says what is left to do.
void BatchWorker::begin_anew() {
  for (auto& [row, running] : running_) abort_lines(running);
  running_.clear();
  unsaved_.clear();
  num_in_flight_ = 0;
  until_memory([&] { storage_problem_ = out_of_memory().to_string(); });
  until_memory([&] { log_warning("batches wait: {}", storage_problem_); });
}

milliseconds BatchWorker::idle_time() const {
  const auto now = std::chrono::steady_clock::now();
  if (running_.empty()) return kIdleTick;
  if (paused_until_ <= now) return kTick;
  return std::min(kTick, std::chrono::ceil<milliseconds>(paused_until_ - now));
}

bool BatchWorker::run_once() {
  take_answers();
  Status status = store_results();
  if (status.ok()) status = files_.remove_expired(now_());
  if (status.ok()) {
    auto batches = batches_.active();
    status = batches.status();
    for (std::size_t i = 0; status.ok() && i < (batches.ok() ? batches->size() : 0) && !stop_;
         ++i) {
      status = step((*batches)[i]);
    }
  }
  if (status.code() == StatusCode::kCancelled) return true;
  const std::string problem = status.ok() ? std::string() : status.to_string();
  if (problem != storage_problem_) {
    if (!problem.empty()) log_warning("batches wait: {}", problem);
    if (problem.empty()) log_info("batches go on");
    storage_problem_ = problem;
  }
  return status.ok();
}

void BatchWorker::take_answers() {
  for (Inbox::Answer& answer : inbox_->take()) {
    const auto running = running_.find(answer.batch_row);
    if (running == running_.end()) continue;
    const auto found = running->second.in_flight.find(answer.line);
    if (found == running->second.in_flight.end()) continue;
    BatchInputLine line = std::move(found->second.line);
    running->second.in_flight.erase(found);
    --num_in_flight_;
    if (try_again(answer.response.status)) {
      paused_until_ =
          std::max(paused_until_, std::chrono::steady_clock::now() + retry_after(answer.response));
      running->second.waiting.push_front(std::move(line));
      continue;
    }
    const std::string request_id = batch_request_id(running->second.id, line.line);
    LineResult result{.batch_row = answer.batch_row,
                      .line = line.line,
                      .succeeded = answer.response.status == 200,
                      .record = response_record(request_id, line.custom_id, answer.response),
                      .usage = {}};
    if (const auto body = parse_json(answer.response.body, "answer"); body.ok()) {
      result.usage = read_usage(*body);
    }
    unsaved_.push_back(std::move(result));
  }
}

Status BatchWorker::store_results() {
  if (unsaved_.empty()) return {};
  QUIRE_RETURN_IF_ERROR(batches_.store(unsaved_, now_()));
  unsaved_.clear();
  return {};
}

Status BatchWorker::step(const BatchInfo& batch) {
  if (batch.status == batch_status::kValidating) {
    const Status status = validate_batch(batch, files_, batches_, limits_, now_(), stop_);
    wake();  // to look at what it has become
    return status;
  }
  Running& running = running_[batch.row];
  if (running.id.empty()) {
    QUIRE_ASSIGN_OR_RETURN(running.input, files_.get(batch.input_file_id));
    running.id = batch.id;
  }
  if (batch.status == batch_status::kCancelling) {
    abort_lines(running);
    return finish(batch, batch_status::kCancelled);
  }
  if (now_() >= batch.expires_at) return expire(batch, running);
  return advance(batch, running);
}

void BatchWorker::abort_lines(Running& running) {
  for (auto& [line, in_flight] : running.in_flight) in_flight.exchange->abort();
  num_in_flight_ -= static_cast<int>(running.in_flight.size());
  running.in_flight.clear();
}

Status BatchWorker::expire(const BatchInfo& batch, Running& running) {
  abort_lines(running);
  while (!stop_) {
    QUIRE_ASSIGN_OR_RETURN(const auto lines,
                           batches_.pending_lines(batch.row, 0, kExpiredPerTransaction));
    if (lines.empty()) return finish(batch, batch_status::kExpired);
    std::vector<LineResult> results;
    for (const BatchInputLine& line : lines) {
      results.push_back(
          {.batch_row = batch.row,
           .line = line.line,
           .succeeded = false,
           .record = unanswered_record(
               batch_request_id(batch.id, line.line), line.custom_id, "batch_expired",
               "This request could not be executed before the completion window expired."),
           .usage = {}});
    }
    QUIRE_RETURN_IF_ERROR(batches_.store(results, now_(), /*beyond_quota=*/true));
  }
  return {};
}

Status BatchWorker::finish(const BatchInfo& batch, std::string_view status) {
  QUIRE_RETURN_IF_ERROR(batches_.finish(batch.row, status, now_()));
  running_.erase(batch.row);
  const auto ended = batches_.get(batch.id);
  if (ended.ok()) {
    log_event("batch", {{"id", ended->id},
                        {"status", ended->status},
                        {"total", ended->total},
                        {"completed", ended->completed},
                        {"failed", ended->failed}});
  }
  return {};
}

std::optional<BatchInputLine> BatchWorker::next_line(const BatchInfo& batch, Running& running,
                                                     Status& status) {
  if (running.waiting.empty() && !running.all_read) {
    auto lines = batches_.pending_lines(batch.row, running.last_read, kLinesPerRead);
    if (!lines.ok()) {
      status = lines.status();
      return std::nullopt;
    }
    running.all_read = lines->empty();
    for (BatchInputLine& line : *lines) {
      running.last_read = line.line;
      running.waiting.push_back(std::move(line));
    }
  }
  if (running.waiting.empty()) return std::nullopt;
  BatchInputLine line = std::move(running.waiting.front());
  running.waiting.pop_front();
  return line;
}

Status BatchWorker::advance(const BatchInfo& batch, Running& running) {
  while (!stop_ && num_in_flight_ < limits_.max_lines_in_flight &&
         std::chrono::steady_clock::now() >= paused_until_) {
    Status status;
    auto line = next_line(batch, running, status);
    QUIRE_RETURN_IF_ERROR(status);
    if (!line) break;
    QUIRE_RETURN_IF_ERROR(launch(batch, running, std::move(*line)));
  }
  const bool ended = running.all_read && running.waiting.empty() && running.in_flight.empty();
  return ended ? finish(batch, batch_status::kCompleted) : Status();
}

Status BatchWorker::launch(const BatchInfo& batch, Running& running, BatchInputLine line) {
  auto text = files_.read(running.input, line.begin, line.size);
  if (!text.ok()) {
    running.waiting.push_front(std::move(line));
    return text.status();
  }
  const auto parsed = parse_batch_input_line(*text, batch.endpoint);
  const auto* asked = std::get_if<BatchLineRequest>(&parsed);
  if (asked == nullptr) return Status::internal("a line of a batch has changed since it was read");
  HttpRequest request;
  request.method = "POST";
  request.path = batch.endpoint;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = asked->body;
  request.caller = batch.id;  // its prompts share with each other, and with nobody else
  request.request_id = batch_request_id(batch.id, line.line);
  const std::int64_t number = line.line;
  auto done = [inbox = inbox_, row = batch.row, number](HttpResponse response) {
    inbox->push({.batch_row = row, .line = number, .response = std::move(response)});
  };
  const auto exchange = std::make_shared<CollectedExchange>(
      std::move(request), limits_.max_result_bytes, std::move(done));
  running.in_flight[number] = {.line = std::move(line), .exchange = exchange};
  ++num_in_flight_;
  const HttpHandler* const handler = handlers_(batch.endpoint);
  if (asked->stream) {
    exchange->respond(stream_refused());
  } else if (handler == nullptr) {
    exchange->respond(http_error(404, "this server does not have the endpoint of the batch"));
  } else {
    (*handler)(exchange);
  }
  return {};
}

}  // namespace quire
