#include "serve/generation/generation.h"

#include <algorithm>
#include <utility>

#include "base/exhaustion.h"

namespace quire {
namespace {

// Prompts of one request that wait in the engine's queue at a time. More than a step begins, so
// that none finds the queue empty.
constexpr std::int64_t kWindowPrompts = 16;
// Of prompts that end with their first step the queue needs what the next steps compute.
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

void begin(ServedModel& model, Exchange& exchange, const RequestOrigin& origin,
           std::vector<GenerateRequest> prompts, const std::shared_ptr<GenerationAnswer>& answer) {
  const auto generation = Generation::submit(model, origin, std::move(prompts), answer);
  if (!generation.ok()) return answer->refused(generation.status());
  const std::shared_ptr<Generation>& running = *generation;
  running->open([&] {
    exchange.on_disconnect([running] { running->abort(); });
    answer->begun();
  });
}

// A request whose constraint is to be compiled before it can begin.
struct Unprepared {
  std::shared_ptr<Exchange> exchange;
  RequestOrigin origin;
  SamplingParams params;
  std::vector<GenerateRequest> prompts;
  std::shared_ptr<GenerationAnswer> answer;

  // False: `pause` said so, and nothing has happened yet.
  bool prepare_and_begin(ServedModel& model, const Preparations::Pause& pause) {
    if (exchange->gone()) return true;
    try {
      bool gives_up = false;
      const Status prepared = model.engine().prepare(
          params, [&, this] { return exchange->gone() || (gives_up = pause()); });
      if (gives_up && prepared.code() == StatusCode::kCancelled) return false;
      if (prepared.ok()) {
        begin(model, *exchange, origin, std::move(prompts), answer);
      } else {
        answer->refused(prepared);
      }
    } catch (const std::bad_alloc&) {
      until_memory([&] { answer->refused(out_of_memory()); });
    }
    return true;
  }
};

Status reason_of(const RequestOutput& failure) {
  if (!failure.error.ok()) return failure.error;
  return Status::unavailable("the request was ended before its answer was complete");
}

}  // namespace

void generate(ServedModel& model, std::shared_ptr<Exchange> exchange, RequestOrigin origin,
              std::vector<GenerateRequest> prompts, std::shared_ptr<GenerationAnswer> answer) {
  const auto unprepared = std::ranges::find_if(prompts, [&](const GenerateRequest& prompt) {
    return !prompt.embed && !model.engine().is_prepared(prompt.params);
  });
  if (unprepared == prompts.end()) {
    return begin(model, *exchange, origin, std::move(prompts), std::move(answer));
  }
  auto waiting = std::make_shared<Unprepared>(Unprepared{
      std::move(exchange), std::move(origin), unprepared->params, std::move(prompts), answer});
  const Status posted =
      model.preparations().post([&model, waiting](const Preparations::Pause& pause) {
        return waiting->prepare_and_begin(model, pause);
      });
  if (!posted.ok()) answer->refused(posted);
}

Generation::Generation(ServedModel& model, RequestOrigin origin,
                       std::vector<GenerateRequest> requests,
                       std::shared_ptr<GenerationAnswer> answer)
    : model_(model), origin_(std::move(origin)), answer_(std::move(answer)) {
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

Result<std::shared_ptr<Generation>> Generation::submit(ServedModel& model,
                                                       const RequestOrigin& origin,
                                                       std::vector<GenerateRequest> requests,
                                                       std::shared_ptr<GenerationAnswer> answer) {
  for (const GenerateRequest& request : requests) {
    QUIRE_RETURN_IF_ERROR(model.engine().check(request));
  }
  std::shared_ptr<Generation> generation(
      new Generation(model, origin, std::move(requests), std::move(answer)));
  if (generation->prompts_.size() > 1) {
    std::int64_t total = 0;
    for (const Prompt& prompt : generation->prompts_) total += prompt.num_outputs;
    QUIRE_RETURN_IF_ERROR(model.reserve(total));
    generation->num_reserved_ = total;
    for (Prompt& prompt : generation->prompts_) prompt.request.reserved = true;
  }
  generation->feeding_ = true;
  const Status status = generation->feed();
  if (status.ok()) return generation;
  // The queue has accepted some of them: it gets the others later.
  if (status.code() == StatusCode::kResourceExhausted && generation->begun()) {
    const Status later = or_status([&] {
      generation->feed_later(kRetry);
      return Status();
    });
    if (later.ok()) return generation;
  }
  until_memory([&] { generation->abort(); });
  return status;
}

Status Generation::feed() {
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
      return model_.submit(origin_, std::move(request),
                           [self = shared_from_this(), index](const RequestOutput& output) {
                             self->take(index, output);
                           });
    });
    lock.lock();
    if (id.ok()) {
      prompt.id = *id;
      const bool too_late = over_ && prompt.state != State::kEnded;
      lock.unlock();
      if (too_late) model_.engine().abort(*id);
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

void Generation::feed_later(DeferredCalls::Clock::duration delay) {
  const auto call = [self = shared_from_this()] {
    const Status status = self->feed();
    if (status.ok()) return;
    if (status.code() == StatusCode::kResourceExhausted) return self->feed_later(kRetry);
    self->fail(status);
  };
  model_.deferred().post(call, DeferredCalls::Clock::now() + delay);
}

// What cannot be submitted ends the whole as a prompt that failed.
void Generation::fail(const Status& error) {
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

void Generation::take(std::size_t index, const RequestOutput& output) {
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
    prompt.request.reserved = false;  // the refused one has used what was set aside
    delay = kRetry;
    more = !std::exchange(feeding_, true);
  } else {
    if (prompt.state == State::kWaiting) leave_window(prompt, State::kBegun);
    // An end comes again, as an error, where somebody lacked memory for it.
    if (output.request_finished && prompt.state != State::kEnded) {
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

void Generation::open(const std::function<void()>& begin) {
  try {
    begin();
    const std::lock_guard lock(mutex_);
    open_ = true;
    for (const Early& each : std::exchange(early_, {})) tell(each.prompt, each.output, each.last);
    if (over_ || num_ended_ == prompts_.size()) answer_ = nullptr;
  } catch (const std::bad_alloc&) {
    until_memory([this] { abort(); });
    throw;
  }
}

void Generation::abort() {
  std::unique_lock lock(mutex_);
  End ended = end();
  early_ = {};
  ended.answer.swap(answer_);
  lock.unlock();
  carry_out(std::move(ended));
}

bool Generation::begun() {
  const std::lock_guard lock(mutex_);
  return pending_.size() < prompts_.size();
}

bool Generation::room_in_window() const {
  const EngineInfo& info = model_.engine().info();
  if (num_waiting_ < kWindowPrompts) return true;
  if (!info.continuous_batching) return num_waiting_ < info.max_num_seqs;
  return leaves_at_once_ && num_waiting_ < info.max_num_seqs &&
         waiting_tokens_ < kWindowSteps * info.max_num_batched_tokens;
}

void Generation::leave_window(Prompt& prompt, State state) {
  prompt.state = state;
  --num_waiting_;
  waiting_tokens_ -= prompt.num_tokens;
  if (state != State::kPending) prompt.request = {};
}

void Generation::put_back(std::size_t index) {
  leave_window(prompts_[index], State::kPending);
  prompts_[index].id = 0;
  pending_.push_front(index);
}

void Generation::hand_on(std::size_t index, const RequestOutput& output) {
  const bool last = num_ended_ == prompts_.size();
  if (!open_) {
    early_.push_back({.prompt = index, .output = output, .last = last});
    return;
  }
  tell(index, output, last);
  if (last || is_failure(output)) answer_ = nullptr;  // and what it owns
}

void Generation::tell(std::size_t index, const RequestOutput& output, bool last) {
  if (is_failure(output)) return answer_->failed(reason_of(output));
  answer_->piece(index, output, last);
}

Generation::End Generation::end() {
  over_ = true;
  pending_.clear();
  return {.over = true, .unused_room = std::exchange(num_reserved_, 0), .answer = nullptr};
}

void Generation::carry_out(End end) {
  if (end.unused_room > 0) model_.release(end.unused_room);
  if (!end.over) return;
  std::unique_lock lock(mutex_);
  for (Prompt& prompt : prompts_) {
    const bool runs = prompt.state == State::kWaiting || prompt.state == State::kBegun;
    if (!runs || prompt.id == 0) continue;
    const RequestId id = std::exchange(prompt.id, 0);
    lock.unlock();
    until_memory([&] { model_.engine().abort(id); });
    lock.lock();
  }
}

}  // namespace quire
