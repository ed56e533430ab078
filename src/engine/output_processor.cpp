#include "engine/output_processor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/exhaustion.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr Stage kHandOutStage = {StageKind::kBookkeeping, "hand out"};

RequestMetrics metrics_of(const Request& request) {
  return {.arrival = request.arrival(),
          .first_scheduled = request.first_scheduled(),
          .first_token = request.first_token(),
          .finished = request.finish_time(),
          .num_preemptions = request.num_preemptions(),
          .step_time = request.step_time()};
}

std::span<const TokenLogprob> top_of(const ModelRunnerOutput& result, std::int32_t first,
                                     std::int32_t count) {
  return std::span(result.top_logprobs)
      .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

}  // namespace

OutputProcessor::State::State(const Detokenizer& start, const SamplingParams& params,
                              std::shared_ptr<Group> request, std::int32_t output_index)
    : group(std::move(request)),
      index(output_index),
      detokenizer(start),
      stop(params.stop, params.include_stop_str_in_output),
      min_tokens(params.min_tokens),
      returns_forced(params.return_forced_tokens) {}

OutputProcessor::OutputProcessor(const Tokenizer& tokenizer, std::function<void(RequestId)> abort,
                                 SpanRecorder* spans, const StepResultLimits& limits)
    : tokenizer_(tokenizer),
      abort_(std::move(abort)),
      spans_(spans),
      queue_bytes_(limits.queue_bytes()) {
  queue_.reserve(kMaxQueuedSteps);
  spare_.reserve(kMaxQueuedSteps);
  thread_ = new_thread("quire-output", [this] { run(); });
}

void OutputProcessor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void OutputProcessor::add(RequestId request_id, std::span<const TokenId> prompt_token_ids,
                          const SamplingParams& params, OutputSink sink,
                          std::shared_ptr<const ConstraintWork> constraint,
                          std::span<const TokenId> shown_special_tokens,
                          std::shared_ptr<const std::vector<SpeculationReport>> speculation) {
  auto group = std::make_shared<Group>();
  group->request_id = request_id;
  group->sink = std::move(sink);
  group->constraint = std::move(constraint);
  group->speculation = std::move(speculation);
  group->num_outputs = group->num_unfinished = static_cast<std::int32_t>(params.n);
  group->num_prompt_tokens = static_cast<std::int64_t>(prompt_token_ids.size());
  const Detokenizer start(tokenizer_, params.skip_special_tokens, prompt_token_ids,
                          shown_special_tokens);
  std::vector<std::unique_ptr<State>> states;
  for (std::int32_t i = 0; i < group->num_outputs; ++i) {
    states.push_back(std::make_unique<State>(start, params, group, i));
  }
  const std::lock_guard lock(mutex_);
  try {
    for (auto& state : states) {
      const RequestId output_id = request_id + static_cast<RequestId>(state->index);
      states_.emplace(output_id, std::move(state));
    }
    groups_.emplace(request_id, std::move(group));
  } catch (const std::bad_alloc&) {  // all of it or nothing
    for (std::size_t i = 0; i < states.size(); ++i) states_.erase(request_id + RequestId{i});
    throw;
  }
}

bool OutputProcessor::remove(RequestId request_id) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(request_id);
  if (found == groups_.end() || found->second->num_unfinished < found->second->num_outputs) {
    return false;
  }
  const std::int32_t count = found->second->num_outputs;
  for (std::int32_t i = 0; i < count; ++i) states_.erase(request_id + static_cast<RequestId>(i));
  groups_.erase(found);
  return true;
}

std::int32_t OutputProcessor::num_outputs(RequestId request_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(request_id);
  return found == groups_.end() ? 0 : found->second->num_outputs;
}

std::int64_t OutputProcessor::num_unfinished() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(states_);
}

void OutputProcessor::push(StepResult& step) {
  if (step.outputs.empty() && step.result.prompt_tokens.empty()) return;
  {
    std::unique_lock lock(mutex_);
    const std::size_t bytes = step.capacity_bytes();
    room_.wait(lock, [&] {
      const bool fits =
          num_queued_steps_ < kMaxQueuedSteps && queued_bytes_ + bytes <= queue_bytes_;
      return fits || num_queued_steps_ == 0;
    });
    ++num_queued_steps_;
    queued_bytes_ += bytes;
    queue_.emplace_back(std::move(step));
    if (spare_.empty()) {
      step = StepResult();
    } else {
      step = std::move(spare_.back());
      spare_.pop_back();
      spare_bytes_ -= step.capacity_bytes();
    }
  }
  wake_.notify_one();
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
  std::vector<Item> items;
  until_memory([&] { items.reserve(kMaxQueuedSteps); });
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    items.swap(queue_);
    lock.unlock();
    for (Item& item : items) {
      until_memory([&] { std::visit([this](const auto& content) { process(content); }, item); });
      if (auto* step = std::get_if<StepResult>(&item)) recycle(std::move(*step));
    }
    items.clear();
    lock.lock();
  }
}

// Lists beyond the bound are freed: those that a burst of long outputs has made large would stay
// so.
void OutputProcessor::recycle(StepResult step) {
  step.outputs.clear();
  const std::size_t bytes = step.capacity_bytes();
  {
    const std::lock_guard lock(mutex_);
    --num_queued_steps_;
    queued_bytes_ -= bytes;
    if (spare_.size() < kMaxQueuedSteps &&
        (spare_.empty() || spare_bytes_ + bytes <= queue_bytes_)) {
      spare_bytes_ += bytes;
      spare_.push_back(std::move(step));
    }
  }
  room_.notify_one();
}

// Outputs whose memory is refused end here, with an error, and in the engine; others go on.
void OutputProcessor::process(const StepResult& step) {
  try {
    process_step(step);
  } catch (const std::bad_alloc&) {
    for (const PromptToken& token : step.result.prompt_tokens) give_up(token.request_id);
    for (const RequestStepOutput& output : step.outputs) give_up(output.request_id);
  }
}

void OutputProcessor::give_up(RequestId output_id) {
  const State* state = find(output_id);
  if (state == nullptr) return;
  const std::shared_ptr<Group> group = state->group;
  until_memory([&] { process(Failed{group->request_id, out_of_memory()}); });
  for (std::int32_t i = 0; i < group->num_outputs; ++i) {
    until_memory([&] { abort_(group->request_id + static_cast<RequestId>(i)); });
  }
}

void OutputProcessor::process_step(const StepResult& step) {
  const ScopedSpan span(spans_, kHandOutStage);
  if (span.get() != nullptr) span.get()->id = step.result.step_id;
  for (const PromptToken& token : step.result.prompt_tokens) add_prompt_token(token, step.result);
  find_states(step);
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    if (step_states_[i] == nullptr) continue;
    try {
      if (step.outputs[i].finished != nullptr && step.outputs[i].finished->is_beam_search()) {
        process_beams(*step.outputs[i].finished);
      } else if (step.outputs[i].pooled_index >= 0) {
        process_pooled(step.outputs[i], step.result);
      } else {
        process_tokens(*step_states_[i], step.outputs[i], step);
      }
    } catch (const std::bad_alloc&) {
      give_up(step.outputs[i].request_id);
      find_states(step);  // its other outputs have gone, too
    }
  }
}

// Under one lock for the step, not one for each token: other threads add requests meanwhile. Only
// this thread removes what has tokens, each when it ends, so the states last through the step.
void OutputProcessor::find_states(const StepResult& step) {
  step_states_.clear();
  const std::lock_guard lock(mutex_);
  for (const RequestStepOutput& token : step.outputs) {
    const auto it = states_.find(token.request_id);
    step_states_.push_back(it == states_.end() ? nullptr : it->second.get());
  }
}

void OutputProcessor::process(const Aborted& request) {
  if (request->is_beam_search()) return abort_beams(*request);
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
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : states_) {
      if (!failed.request_id || state->group->request_id == *failed.request_id) ids.push_back(id);
    }
  }
  for (const RequestId id : ids) {
    RequestOutput output;
    output.error = failed.error;
    finish(id, nullptr, std::move(output));
  }
}

// A prompt that is computed again after a preemption reports its positions again: each counts once.
void OutputProcessor::add_prompt_token(const PromptToken& token, const ModelRunnerOutput& result) {
  const State* state = find(token.request_id);
  if (state == nullptr || state->index != 0) return;
  std::vector<PositionLogprobs>& prompt = state->group->prompt_logprobs;
  if (state->num_output_tokens > 0 || token.position != std::ssize(prompt) + 1) return;
  const auto top = top_of(result, token.first_top_logprob, token.num_top_logprobs);
  prompt.push_back({token.token, {top.begin(), top.end()}});
}

// The text that a token adds. `ends`: it is the output's last one.
StopMatcher::Match OutputProcessor::match_text(State& state, TokenId token_id, bool ends) const {
  std::string piece = state.detokenizer.add(token_id);
  if (ends) piece += state.detokenizer.flush();
  if (state.num_output_tokens <= state.min_tokens) return {.text = std::move(piece), .stop = {}};
  StopMatcher::Match match = state.stop.add(piece);
  if (ends && !match.stop) match.text += state.stop.flush();
  return match;
}

void OutputProcessor::process_pooled(const RequestStepOutput& pooled,
                                     const ModelRunnerOutput& result) {
  const PooledState& state = result.pooled[static_cast<std::size_t>(pooled.pooled_index)];
  const auto values = std::span(result.hidden_states).subspan(state.first, state.size);
  RequestOutput output;
  output.embedding.assign(values.begin(), values.end());
  output.finish_reason = FinishReason::kStop;
  finish(pooled.request_id, pooled.finished.get(), std::move(output));
}

// The request has ended with the last of its tokens, if it has.
void OutputProcessor::process_tokens(State& state, const RequestStepOutput& given,
                                     const StepResult& step) {
  const auto first = static_cast<std::size_t>(given.first_sampled);
  const std::size_t last = first + static_cast<std::size_t>(given.num_sampled) - 1;
  for (std::size_t place = first; place < last; ++place) {
    process_token(state, place, nullptr, step);
  }
  process_token(state, last, given.finished.get(), step);
}

void OutputProcessor::process_token(State& state, std::size_t place, const Request* request,
                                    const StepResult& step) {
  const SampledToken& sampled = step.result.sampled[place];
  if (state.last) {
    if (request != nullptr) finish(sampled.request_id, request, *std::move(state.last));
    return;
  }
  ++state.num_output_tokens;
  state.cumulative_logprob += static_cast<double>(sampled.logprob);
  RequestOutput& output = start_output();
  output.token_ids.push_back(sampled.token_id);
  output.logprobs.resize(1);
  output.logprobs[0].token = {sampled.token_id, sampled.logprob, sampled.rank};
  const auto top = top_of(step.result, sampled.first_top_logprob, sampled.num_top_logprobs);
  output.logprobs[0].top.assign(top.begin(), top.end());
  if (state.returns_forced) {
    output.forced_tokens.push_back(!step.forced.empty() && step.forced[place] != 0);
  }
  if (state.index == 0) output.prompt_logprobs = std::exchange(state.group->prompt_logprobs, {});

  StopMatcher::Match match = match_text(state, sampled.token_id, request != nullptr);
  output.text = std::move(match.text);
  if (match.stop) {
    output.finish_reason = FinishReason::kStop;
    output.stop_string = std::move(match.stop);
  } else if (request != nullptr) {
    output.finish_reason = request->finish_reason();
    output.stop_token_id = request->stop_token_id();
  }

  if (request != nullptr) {
    finish(sampled.request_id, request, std::move(output));
  } else if (output.stop_string) {
    state.last = std::move(output);
    abort_(sampled.request_id);
  } else {
    hand_out(state, output);
  }
}

// A blank output that keeps the memory of the one before it.
RequestOutput& OutputProcessor::start_output() {
  std::vector<TokenId> token_ids = std::move(output_.token_ids);
  std::vector<PositionLogprobs> logprobs = std::move(output_.logprobs);
  token_ids.clear();
  output_ = RequestOutput();
  output_.token_ids = std::move(token_ids);
  output_.logprobs = std::move(logprobs);
  return output_;
}

void OutputProcessor::hand_out(State& state, RequestOutput& output) {
  output.request_id = state.group->request_id;
  output.index = state.index;
  output.num_prompt_tokens = state.group->num_prompt_tokens;
  output.num_output_tokens = state.num_output_tokens;
  output.cumulative_logprob = state.cumulative_logprob;
  state.group->sink(output);
}

void OutputProcessor::finish(RequestId output_id, const Request* request, RequestOutput output) {
  if (request != nullptr) {
    output.num_cached_tokens = request->num_cached_tokens();
    output.num_accepted_drafts = request->num_accepted_drafts();
    output.num_rejected_drafts = request->num_rejected_drafts();
    output.metrics = metrics_of(*request);
    output.timeline = std::make_shared<const RequestTimeline>(request->timeline());
  }
  std::unique_ptr<State> state;
  {
    const std::lock_guard lock(mutex_);
    const auto it = states_.find(output_id);
    if (it == states_.end()) return;  // removed meanwhile
    if (it->second->group->constraint) output.constraint = it->second->group->constraint->report();
    state = std::move(it->second);
    states_.erase(it);
    output.request_finished = --state->group->num_unfinished == 0;
    if (output.request_finished) groups_.erase(state->group->request_id);
  }
  // The engine's thread writes it until it lets the request go.
  const auto& reports = state->group->speculation;
  if (const auto index = static_cast<std::size_t>(state->index);
      request != nullptr && reports != nullptr && (*reports)[index].num_steps > 0) {
    output.speculation = {reports, &(*reports)[index]};
  }
  output.finished = true;
  try {
    hand_out(*state, output);
  } catch (const std::bad_alloc&) {
    until_memory([&] {
      RequestOutput failed;
      failed.error = out_of_memory();
      failed.finished = true;
      failed.request_finished = output.request_finished;
      hand_out(*state, failed);
    });
  }
}

OutputProcessor::State* OutputProcessor::find(RequestId output_id) const {
  const std::lock_guard lock(mutex_);
  const auto it = states_.find(output_id);
  return it == states_.end() ? nullptr : it->second.get();
}

}  // namespace quire
