#include "serve/tracing/request_trace.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "serve/http/field_text.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

// A request may have thousands of prompts and outputs; its trace stays readable.
constexpr std::size_t kMaxPrompts = 32;
constexpr std::size_t kMaxFinishReasons = 128;
constexpr std::size_t kMaxStopSequences = 16;
constexpr std::size_t kMaxTextBytes = 128;

template <typename Pick>
void take(std::optional<Instant>& target, const std::optional<Instant>& value, Pick pick) {
  if (value) target = target ? pick(*target, *value) : *value;
}
Instant earlier(Instant a, Instant b) { return std::min(a, b); }
Instant later(Instant a, Instant b) { return std::max(a, b); }

bool is_sampling(const GenerateRequest& request) { return !request.embed; }

}  // namespace

RequestTrace::RequestTrace(std::shared_ptr<const TracedModel> model, Tracing& tracing,
                           std::string_view operation, std::string_view route,
                           const HttpRequest& request)
    : model_(std::move(model)), tracing_(tracing), operation_(operation), name_(operation) {
  const auto parent = incoming_context(request.headers);
  if (parent) {
    context_ = *parent;
    parent_id_ = parent->span_id;
  } else {
    context_.trace_id = ids_.trace_id();
    context_.flags = TraceContext::kRandomId;
  }
  context_.span_id = ids_.next_span_id();
  context_.flags &= static_cast<std::uint8_t>(~TraceContext::kSampled);
  if (!tracing.sampler.sample(parent, context_.trace_id)) return;
  context_.flags |= TraceContext::kSampled;

  const Instant now = model_->engine.now();
  const auto unix_now = std::chrono::system_clock::now().time_since_epoch();
  unix_offset_ = (std::chrono::duration_cast<std::chrono::nanoseconds>(unix_now) - now).count();
  begin_ = received_at(request.received, model_->engine);
  attributes_ = tracing.server_attributes;
  attributes_.push_back({"gen_ai.operation.name", std::string(operation)});
  attributes_.push_back({"gen_ai.provider.name", std::string("quire")});
  attributes_.push_back({"http.request.method", request.method});
  attributes_.push_back({"http.route", std::string(route)});
  attributes_.push_back({"url.path", clipped(request.path, kMaxTextBytes)});
}

void RequestTrace::answering(int status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void RequestTrace::ended() { end_locked(std::unique_lock(mutex_)); }

void RequestTrace::disconnected() {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  disconnected_ = true;
  end_locked(std::move(lock));
}

void RequestTrace::end_locked(std::unique_lock<std::mutex> lock) {
  if (std::exchange(ended_, true)) return;
  end_ = model_->engine.now();
  emit_if_done(std::move(lock));
}

std::size_t RequestTrace::submitting(const RequestOrigin& origin, const GenerateRequest& request) {
  const std::lock_guard lock(mutex_);
  if (prompts_.empty()) describe(origin, request);
  Prompt& prompt = prompts_.emplace_back();
  prompt.embed = request.embed;
  prompt.input_tokens = std::ssize(request.prompt_token_ids);
  prompt.submitted = model_->engine.now();
  ++num_open_;
  return prompts_.size() - 1;
}

void RequestTrace::describe(const RequestOrigin& origin, const GenerateRequest& request) {
  name_ = fmt::format("{} {}", operation_, clipped(origin.model, kMaxTextBytes));
  stream_ = origin.stream;
  const auto add = [this](std::string_view key, AttributeValue value) {
    attributes_.push_back({key, std::move(value)});
  };
  add("gen_ai.request.model", clipped(origin.model, kMaxTextBytes));
  add("gen_ai.response.model", model_->name);
  add("gen_ai.response.id", origin.external_id);
  if (!is_sampling(request)) return;
  const SamplingParams& params = request.params;
  if (origin.stream) add("gen_ai.request.stream", true);
  if (params.n != 1) add("gen_ai.request.choice.count", std::int64_t{params.n});
  add("gen_ai.request.max_tokens", std::int64_t{params.max_tokens});
  add("gen_ai.request.temperature", static_cast<double>(params.temperature));
  add("gen_ai.request.top_p", static_cast<double>(params.top_p));
  add("gen_ai.request.top_k", static_cast<double>(params.top_k));
  add("gen_ai.request.frequency_penalty", static_cast<double>(params.frequency_penalty));
  add("gen_ai.request.presence_penalty", static_cast<double>(params.presence_penalty));
  if (params.seed) add("gen_ai.request.seed", static_cast<std::int64_t>(*params.seed));
  if (!params.stop.empty()) {
    std::vector<std::string> sequences;
    for (const std::string& each : params.stop) {
      if (sequences.size() < kMaxStopSequences) sequences.push_back(clipped(each, kMaxTextBytes));
    }
    add("gen_ai.request.stop_sequences", std::move(sequences));
  }
}

void RequestTrace::refused(std::size_t prompt) {
  std::unique_lock lock(mutex_);
  prompts_[prompt].refused = true;
  --num_open_;
  emit_if_done(std::move(lock));
}

void RequestTrace::finished(std::size_t number, const RequestOutput& output) {
  std::unique_lock lock(mutex_);
  Prompt& prompt = prompts_[number];
  const RequestMetrics& times = output.metrics;
  take(prompt.first_scheduled, times.first_scheduled, earlier);
  take(prompt.first_token, times.first_token, earlier);
  take(prompt.finished, times.finished, later);
  prompt.cached_tokens = std::max(prompt.cached_tokens, output.num_cached_tokens);
  prompt.output_tokens += output.num_output_tokens;
  prompt.preemptions += times.num_preemptions;
  if (output.index == 0) prompt.timeline = output.timeline;
  if (finish_reasons_.size() < kMaxFinishReasons) {
    finish_reasons_.emplace_back(finish_name(output));
  }
  if (!output.error.ok()) failure_ = clipped(output.error.message(), kMaxTextBytes);
  if (output.request_finished) --num_open_;
  emit_if_done(std::move(lock));
}

void RequestTrace::emit_if_done(std::unique_lock<std::mutex> lock) {
  if (!ended_ || num_open_ > 0 || !context_.sampled()) return;
  if (std::exchange(emitted_, true)) return;  // a prompt that was submitted as its client went
  std::vector<TraceSpan> all = spans();
  lock.unlock();
  tracing_.exporter.add(std::move(all));
}

std::vector<TraceSpan> RequestTrace::spans() {
  std::vector<TraceSpan> all;
  all.push_back(server_span(whole()));
  if (prompts_.empty()) return all;
  Instant submitted = end_;
  for (const Prompt& prompt : prompts_) submitted = std::min(submitted, prompt.submitted);
  all.push_back(child("prepare", begin_, submitted));
  for (std::size_t i = 0; i < std::min(prompts_.size(), kMaxPrompts); ++i) {
    if (!prompts_[i].refused) add_phases(all, prompts_[i], i);
  }
  return all;
}

// All prompts as one: from the first to begin to the last to end.
RequestTrace::Prompt RequestTrace::whole() const {
  Prompt whole;
  bool first = true;
  for (const Prompt& prompt : prompts_) {
    if (prompt.refused) continue;
    whole.embed = prompt.embed;
    whole.submitted = std::exchange(first, false) ? prompt.submitted
                                                  : std::min(whole.submitted, prompt.submitted);
    take(whole.first_scheduled, prompt.first_scheduled, earlier);
    take(whole.first_token, prompt.first_token, earlier);
    take(whole.finished, prompt.finished, later);
    whole.input_tokens += prompt.input_tokens;
    whole.cached_tokens += prompt.cached_tokens;
    whole.output_tokens += prompt.output_tokens;
    whole.preemptions += prompt.preemptions;
  }
  return whole;
}

TraceSpan RequestTrace::server_span(const Prompt& whole) {
  const Instant end = std::max(end_, whole.finished.value_or(end_));
  TraceSpan span = child(name_, begin_, end);
  span.span_id = context_.span_id;
  span.parent_id = parent_id_;
  span.parent_remote = parent_id_ != SpanId{};
  span.kind = TraceSpanKind::kServer;
  span.attributes = attributes_;
  const auto add = [&span](std::string_view key, AttributeValue value) {
    span.attributes.push_back({key, std::move(value)});
  };
  if (status_ != 0) add("http.response.status_code", std::int64_t{status_});
  if (disconnected_) add("quire.client_disconnected", true);
  // A request that the client got wrong is no failure of the server's, but it is worth finding.
  span.failed = status_ >= 500 || !failure_.empty();
  span.failure_message = failure_;
  if (status_ >= 400) {
    add("error.type", std::to_string(status_));
  } else if (!failure_.empty()) {
    add("error.type", std::string("engine_error"));
  }
  if (finish_reasons_.empty()) return span;
  if (prompts_.size() > 1) add("quire.prompts", static_cast<std::int64_t>(prompts_.size()));
  add("gen_ai.usage.input_tokens", whole.input_tokens);
  add("gen_ai.usage.cache_read.input_tokens", whole.cached_tokens);
  if (!whole.embed) {
    add("gen_ai.usage.output_tokens", whole.output_tokens);
    add("gen_ai.response.finish_reasons", finish_reasons_);
  }
  if (whole.preemptions > 0) add("quire.preemptions", whole.preemptions);
  if (!whole.finished) return span;
  add("gen_ai.latency.e2e", to_seconds(*whole.finished - whole.submitted));
  if (!whole.first_scheduled) return span;
  add("gen_ai.latency.time_in_queue", to_seconds(*whole.first_scheduled - whole.submitted));
  add("gen_ai.latency.time_in_model_inference",
      to_seconds(*whole.finished - *whole.first_scheduled));
  if (!whole.first_token) return span;
  add("gen_ai.latency.time_to_first_token", to_seconds(*whole.first_token - whole.submitted));
  add("gen_ai.latency.time_in_model_prefill",
      to_seconds(*whole.first_token - *whole.first_scheduled));
  add("gen_ai.latency.time_in_model_decode", to_seconds(*whole.finished - *whole.first_token));
  if (stream_) add("gen_ai.response.time_to_first_chunk", to_seconds(*whole.first_token - begin_));
  return span;
}

void RequestTrace::add_phases(std::vector<TraceSpan>& spans, const Prompt& prompt,
                              std::size_t number) {
  if (!prompt.finished) return;
  const std::size_t first = spans.size();
  const Instant end = *prompt.finished;
  const Instant scheduled = prompt.first_scheduled.value_or(end);
  spans.push_back(child("queue", prompt.submitted, scheduled));
  if (prompt.first_scheduled) {
    // An embedding has no token: all of its time in the engine is the prompt's.
    TraceSpan& prefill =
        spans.emplace_back(child("prefill", scheduled, prompt.first_token.value_or(end)));
    prefill.attributes.push_back({"gen_ai.usage.input_tokens", prompt.input_tokens});
    prefill.attributes.push_back({"gen_ai.usage.cache_read.input_tokens", prompt.cached_tokens});
  }
  if (prompt.first_token) {
    TraceSpan& decode = spans.emplace_back(child("decode", *prompt.first_token, end));
    decode.attributes.push_back({"gen_ai.usage.output_tokens", prompt.output_tokens});
    if (prompt.preemptions > 0) {
      decode.attributes.push_back({"quire.preemptions", prompt.preemptions});
    }
  }
  if (prompt.timeline != nullptr) add_waits(std::span(spans).subspan(first), *prompt.timeline);
  if (prompts_.size() == 1) return;
  for (std::size_t i = first; i < spans.size(); ++i) {
    spans[i].attributes.push_back({"quire.prompt", static_cast<std::int64_t>(number)});
  }
}

TraceSpan RequestTrace::child(std::string_view name, Instant begin, Instant end) {
  TraceSpan span;
  span.trace_id = context_.trace_id;
  span.span_id = ids_.next_span_id();
  span.parent_id = context_.span_id;
  span.flags = context_.flags;
  span.state = context_.state;
  span.name = name;
  span.start_unix_nanos = unix_nanos(begin);
  span.end_unix_nanos = unix_nanos(std::max(begin, end));
  return span;
}

// Each wait as an event of the phase in which it began, with its cause and whom it was for.
void RequestTrace::add_waits(std::span<TraceSpan> phases, const RequestTimeline& timeline) const {
  for (const TimelineSpan& wait : timeline.spans()) {
    if (wait.kind != SpanKind::kWait) continue;
    SpanEvent event = {.name = "wait", .unix_nanos = unix_nanos(wait.begin)};
    event.attributes = {{"quire.wait.cause", std::string(wait_cause_name(wait.cause))},
                        {"quire.wait.seconds", to_seconds(wait.end - wait.begin)}};
    if (wait.blockers.count > 0) {
      std::vector<std::string> names;
      for (std::int32_t i = 0; i < wait.blockers.num_ids(); ++i) {
        names.push_back(model_->directory.name(wait.blockers.ids[static_cast<std::size_t>(i)]));
      }
      event.attributes.push_back({"quire.wait.for_count", std::int64_t{wait.blockers.count}});
      event.attributes.push_back({"quire.wait.for", std::move(names)});
    }
    TraceSpan* phase = &phases.front();
    for (TraceSpan& each : phases) {
      if (each.start_unix_nanos <= event.unix_nanos) phase = &each;
    }
    phase->events.push_back(std::move(event));
  }
}

std::int64_t RequestTrace::unix_nanos(Instant instant) const {
  return instant.count() + unix_offset_;
}

}  // namespace quire
