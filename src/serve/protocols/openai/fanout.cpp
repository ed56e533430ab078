#include "serve/protocols/openai/fanout.h"

#include <algorithm>

#include "base/exhaustion.h"

namespace quire {
namespace {

// Prompts of one request that wait in the engine's queue at a time. More than a step takes up, so
// that none finds the queue empty.
constexpr std::int64_t kWindowPrompts = 16;
// Of prompts that end with their first step the queue has to hold what the next steps compute.
constexpr std::int64_t kWindowSteps = 2;
constexpr std::chrono::milliseconds kRetry{50};

std::int64_t num_outputs(const GenerateRequest& request) {
  return request.embed ? 1 : request.params.n;
}

bool ends_at_once(const GenerateRequest& request) {
  return request.embed || (request.params.max_tokens == 1 && request.params.n == 1);
}

bool is_failure(const RequestOutput& output) {
  return output.finished && (!output.error.ok() || output.finish_reason == FinishReason::kAbort);
}

}  // namespace

Fanout::Fanout(Service& service, RequestOrigin origin, std::vector<GenerateRequest> requests,
               Sink sink)
    : service_(service), origin_(std::move(origin)), sink_(std::move(sink)) {
  prompts_.reserve(requests.size());
  for (GenerateRequest& request : requests) {
    leaves_at_once_ = leaves_at_once_ && ends_at_once(request);
    pending_.push_back(prompts_.size());
    Prompt& prompt = prompts_.emplace_back();
    prompt.num_tokens = std::ssize(request.prompt_token_ids);
    prompt.num_outputs = num_outputs(request);
    prompt.request = std::move(request);
  }
}

Result<std::shared_ptr<Fanout>> Fanout::submit(Service& service, const RequestOrigin& origin,
                                               std::vector<GenerateRequest> requests, Sink sink) {
  for (const GenerateRequest& request : requests) {
    QUIRE_RETURN_IF_ERROR(service.engine().check(request));
  }
  std::shared_ptr<Fanout> fanout(new Fanout(service, origin, std::move(requests), std::move(sink)));
  if (fanout->prompts_.size() > 1) {
    std::int64_t total = 0;
    for (const Prompt& prompt : fanout->prompts_) total += prompt.num_outputs;
    QUIRE_RETURN_IF_ERROR(service.reserve(total));
    fanout->num_reserved_ = total;
    for (Prompt& prompt : fanout->prompts_) prompt.request.reserved = true;
  }
  fanout->feeding_ = true;
  const Status status = fanout->feed();
  if (status.ok()) return fanout;
  // The queue has taken some of them: it takes the others later.
  if (status.code() == StatusCode::kResourceExhausted && fanout->begun()) {
    const Status later = or_status([&] {
      fanout->feed_later(kRetry);
      return Status();
    });
    if (later.ok()) return fanout;
  }
  until_memory([&] { fanout->abort(); });
  return status;
}

Status Fanout::feed() {
  while (true) {
    std::unique_lock lock(mutex_);
    if (over_ || pending_.empty() || !room_in_window()) {
      feeding_ = false;
      return {};
    }
    const std::size_t index = pending_.front();
    pending_.pop_front();
    Prompt& prompt = prompts_[index];
    const std::int64_t reserved = prompt.request.reserved ? prompt.num_outputs : 0;
    num_reserved_ -= reserved;
    prompt.state = State::kWaiting;
    ++num_waiting_;
    waiting_tokens_ += prompt.num_tokens;
    lock.unlock();

    const auto id = or_status([&] {
      GenerateRequest request = prompts_.size() == 1 ? std::move(prompt.request) : prompt.request;
      return service_.submit(origin_, std::move(request),
                             [self = shared_from_this(), index](const RequestOutput& output) {
                               self->take(index, output);
                             });
    });
    lock.lock();
    if (id.ok()) {
      prompt.id = *id;
      const bool too_late = over_ && prompt.state != State::kEnded;
      lock.unlock();
      if (too_late) service_.engine().abort(*id);
      continue;
    }
    put_back(index);
    num_reserved_ += reserved;
    const bool over = over_;
    End ended = over ? end() : End();
    lock.unlock();
    carry_out(std::move(ended));
    return over ? Status() : id.status();
  }
}

void Fanout::feed_later(DeferredCalls::Clock::duration delay) {
  const auto call = [self = shared_from_this()] {
    const Status status = self->feed();
    if (status.ok()) return;
    if (status.code() == StatusCode::kResourceExhausted) return self->feed_later(kRetry);
    self->fail(status);
  };
  service_.deferred().post(call, DeferredCalls::Clock::now() + delay);
}

// What cannot be submitted ends the whole as a prompt that failed.
void Fanout::fail(const Status& error) {
  RequestOutput output;
  output.finished = output.request_finished = true;
  output.error = error;
  std::unique_lock lock(mutex_);
  if (over_ || pending_.empty()) return;
  hand_on(pending_.front(), output);
  End ended = end();
  lock.unlock();
  carry_out(std::move(ended));
}

void Fanout::take(std::size_t index, const RequestOutput& output) {
  std::unique_lock lock(mutex_);
  Prompt& prompt = prompts_[index];
  // The scheduler's queue was full after all: the prompt comes again.
  const bool refused = prompts_.size() > 1 && !over_ && prompt.state == State::kWaiting &&
                       output.error.code() == StatusCode::kResourceExhausted;
  End ended;
  bool more = false;
  auto delay = DeferredCalls::Clock::duration::zero();
  if (refused) {
    if (!output.request_finished) return;  // once for all its outputs
    put_back(index);
    prompt.request.reserved = false;  // the refused one has taken what was set aside
    delay = kRetry;
    more = !std::exchange(feeding_, true);
  } else {
    if (prompt.state == State::kWaiting) leave_window(prompt, State::kBegun);
    if (output.request_finished) {
      prompt.state = State::kEnded;
      ++num_ended_;
    }
    if (!over_) {
      hand_on(index, output);
      if (is_failure(output)) ended = end();
    }
    more = !over_ && !pending_.empty() && room_in_window() && !std::exchange(feeding_, true);
  }
  lock.unlock();
  carry_out(std::move(ended));
  if (more) feed_later(delay);
}

void Fanout::open(const std::function<void()>& begin) {
  try {
    begin();
    const std::lock_guard lock(mutex_);
    open_ = true;
    for (const auto& [prompt, output] : std::exchange(early_, {})) sink_(prompt, output);
    if (over_ || num_ended_ == prompts_.size()) sink_ = nullptr;
  } catch (const std::bad_alloc&) {
    until_memory([this] { abort(); });
    throw;
  }
}

void Fanout::abort() {
  std::unique_lock lock(mutex_);
  End ended = end();
  early_ = {};
  ended.sink.swap(sink_);
  lock.unlock();
  carry_out(std::move(ended));
}

bool Fanout::begun() {
  const std::lock_guard lock(mutex_);
  return pending_.size() < prompts_.size();
}

bool Fanout::room_in_window() const {
  const EngineInfo& info = service_.engine().info();
  if (num_waiting_ < kWindowPrompts) return true;
  if (!info.continuous_batching) return num_waiting_ < info.max_num_seqs;
  return leaves_at_once_ && num_waiting_ < info.max_num_seqs &&
         waiting_tokens_ < kWindowSteps * info.max_num_batched_tokens;
}

void Fanout::leave_window(Prompt& prompt, State state) {
  prompt.state = state;
  --num_waiting_;
  waiting_tokens_ -= prompt.num_tokens;
  if (state != State::kPending) prompt.request = {};
}

void Fanout::put_back(std::size_t index) {
  leave_window(prompts_[index], State::kPending);
  prompts_[index].id = 0;
  pending_.push_front(index);
}

void Fanout::hand_on(std::size_t index, const RequestOutput& output) {
  if (!open_) {
    early_.emplace_back(index, output);
    return;
  }
  sink_(index, output);
  if (num_ended_ == prompts_.size() || is_failure(output)) sink_ = nullptr;  // and what it holds
}

Fanout::End Fanout::end() {
  over_ = true;
  End ended;
  for (const Prompt& prompt : prompts_) {
    const bool runs = prompt.state == State::kWaiting || prompt.state == State::kBegun;
    if (runs && prompt.id != 0) ended.running.push_back(prompt.id);
  }
  pending_.clear();
  ended.unused_room = std::exchange(num_reserved_, 0);
  return ended;
}

void Fanout::carry_out(End end) {
  if (end.unused_room > 0) service_.engine().release(end.unused_room);
  for (const RequestId id : end.running) service_.engine().abort(id);
}

}  // namespace quire
