#include "engine/output_processor.h"

#include <utility>

namespace quire {
namespace {

RequestMetrics metrics_of(const Request& request) {
  return {.arrival = request.arrival(),
          .first_scheduled = request.first_scheduled(),
          .first_token = request.first_token(),
          .finished = request.finish_time(),
          .num_preemptions = request.num_preemptions()};
}

}  // namespace

OutputProcessor::State::State(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                              const SamplingParams& params, OutputSink output_sink)
    : detokenizer(tokenizer, /*skip_special_tokens=*/true, prompt),
      stop(params.stop),
      sink(std::move(output_sink)),
      num_prompt_tokens(static_cast<std::int64_t>(prompt.size())) {}

OutputProcessor::OutputProcessor(const Tokenizer& tokenizer, std::function<void(RequestId)> abort)
    : tokenizer_(tokenizer), abort_(std::move(abort)), thread_([this] { run(); }) {}

void OutputProcessor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void OutputProcessor::add(RequestId request_id, std::span<const TokenId> prompt_token_ids,
                          const SamplingParams& params, OutputSink sink) {
  auto state = std::make_unique<State>(tokenizer_, prompt_token_ids, params, std::move(sink));
  const std::lock_guard lock(mutex_);
  states_.emplace(request_id, std::move(state));
}

void OutputProcessor::remove(RequestId request_id) {
  const std::lock_guard lock(mutex_);
  states_.erase(request_id);
}

void OutputProcessor::push(std::vector<RequestStepOutput> outputs) {
  if (!outputs.empty()) enqueue(std::move(outputs));
}

void OutputProcessor::push_aborted(std::unique_ptr<const Request> request) {
  enqueue(std::move(request));
}

void OutputProcessor::push_failed(RequestId request_id, Status error) {
  enqueue(Failed{request_id, std::move(error)});
}

void OutputProcessor::push_all_failed(Status error) {
  enqueue(Failed{std::nullopt, std::move(error)});
}

void OutputProcessor::enqueue(Item item) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  wake_.notify_one();
}

void OutputProcessor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::visit([this](const auto& content) { process(content); }, item);
    lock.lock();
  }
}

void OutputProcessor::process(const Tokens& tokens) {
  for (const RequestStepOutput& token : tokens) process_token(token);
}

void OutputProcessor::process(const Aborted& request) {
  State* state = find(request->id());
  if (state == nullptr) return;
  RequestOutput output;
  if (state->last) {
    output = *std::move(state->last);
  } else {
    output.text = state->stop.add(state->detokenizer.flush()).text + state->stop.flush();
    output.finish_reason = FinishReason::kAbort;
  }
  finish(request->id(), request.get(), std::move(output));
}

void OutputProcessor::process(const Failed& failed) {
  std::vector<RequestId> ids;
  if (failed.request_id) {
    if (find(*failed.request_id) != nullptr) ids.push_back(*failed.request_id);
  } else {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : states_) ids.push_back(id);
  }
  for (const RequestId id : ids) {
    RequestOutput output;
    output.error = failed.error;
    finish(id, nullptr, std::move(output));
  }
}

void OutputProcessor::process_token(const RequestStepOutput& token) {
  State* state = find(token.request_id);
  if (state == nullptr) return;
  const Request* request = token.finished.get();
  if (state->last) {
    if (request != nullptr) finish(token.request_id, request, *std::move(state->last));
    return;
  }
  RequestOutput output;
  output.token_ids = {token.token_id};
  output.logprobs = {token.logprob};
  ++state->num_output_tokens;

  StopMatcher::Match match = state->stop.add(state->detokenizer.add(token.token_id));
  if (request != nullptr && !match.stop) {
    StopMatcher::Match tail = state->stop.add(state->detokenizer.flush());
    match.text += tail.text;
    match.stop = std::move(tail.stop);
    if (!match.stop) match.text += state->stop.flush();
  }
  output.text = std::move(match.text);
  if (match.stop) {
    output.finish_reason = FinishReason::kStop;
    output.stop_string = std::move(match.stop);
  } else if (request != nullptr) {
    output.finish_reason = request->finish_reason();
  }

  if (request != nullptr) {
    finish(token.request_id, request, std::move(output));
  } else if (output.stop_string) {
    state->last = std::move(output);
    abort_(token.request_id);
  } else {
    output.request_id = token.request_id;
    output.num_prompt_tokens = state->num_prompt_tokens;
    output.num_output_tokens = state->num_output_tokens;
    state->sink(output);
  }
}

void OutputProcessor::finish(RequestId request_id, const Request* request, RequestOutput output) {
  std::unique_ptr<State> state;
  {
    const std::lock_guard lock(mutex_);
    const auto it = states_.find(request_id);
    state = std::move(it->second);
    states_.erase(it);
  }
  output.request_id = request_id;
  output.finished = true;
  output.num_prompt_tokens = state->num_prompt_tokens;
  output.num_output_tokens = state->num_output_tokens;
  if (request != nullptr) output.metrics = metrics_of(*request);
  state->sink(output);
}

OutputProcessor::State* OutputProcessor::find(RequestId request_id) {
  const std::lock_guard lock(mutex_);
  const auto it = states_.find(request_id);
  return it == states_.end() ? nullptr : it->second.get();
}

}  // namespace quire
