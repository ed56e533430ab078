#include "apps/batch_runner.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "apps/generation_record.h"
#include "apps/jsonl.h"
#include "apps/progress.h"

namespace quire {
namespace {

// One line in flight.
struct Slot {
  json::value id;
  std::int64_t line = 0;
  std::optional<RequestId> request_id;
  SamplingParams params;
  GatheredOutputs generation;
  Status error;
  bool done = false;
};
using SlotRef = std::list<Slot>::iterator;

bool was_aborted(const Slot& slot) {
  return std::ranges::any_of(slot.generation.outputs, [](const GatheredOutputs::Output& output) {
    return output.finish_reason == FinishReason::kAbort;
  });
}

class BatchRun {
 public:
  BatchRun(BatchBackend& engine, OutputFile& output, const BatchOptions& options)
      : engine_(engine), output_(output), options_(options) {}

  bool full() const { return slots_.size() >= static_cast<std::size_t>(options_.window); }
  bool idle() const { return slots_.empty(); }
  BatchSummary& summary() { return summary_; }

  // Takes a line in. An error ends the run.
  Status add_line(const Result<std::string>& text, std::int64_t number) {
    if (!text.ok()) {
      if (text.status().code() == StatusCode::kIoError) return text.status();
      return add(LineError{number, text.status()}, number);
    }
    return add(parse_batch_line(*text, number, options_.defaults), number);
  }

  // Writes what has finished, in input order unless that is not wanted; waits a little where
  // nothing has.
  Status write_finished() {
    std::vector<SlotRef> finished;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(100), [&] {
        return slots_.empty() || (options_.unordered ? !finished_.empty() : slots_.front().done);
      });
      if (options_.unordered) {
        finished.swap(finished_);
      } else {
        for (auto slot = slots_.begin(); slot != slots_.end() && slot->done; ++slot) {
          finished.push_back(slot);
        }
      }
    }
    for (const SlotRef slot : finished) {
      QUIRE_RETURN_IF_ERROR(write(*slot));
      slots_.erase(slot);
    }
    return {};
  }

  void abort_all() {
    for (const Slot& slot : slots_) {
      if (slot.request_id) engine_.abort(*slot.request_id);
    }
  }

  // Requests in flight report into this object: it must not end before they do.
  void wait_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.done; });
    });
  }

  std::int64_t output_tokens() {
    const std::lock_guard lock(mutex_);
    return output_tokens_;
  }

 private:
  Status add(BatchLine line, std::int64_t number) {
    const auto* error = std::get_if<LineError>(&line);
    const json::value& id = error != nullptr ? error->id : std::get<BatchRequest>(line).id;
    const bool skip = options_.done != nullptr && options_.done->contains(id);
    if (options_.done != nullptr) QUIRE_RETURN_IF_ERROR(options_.done->take(id, number));
    if (error != nullptr) {
      summary_.num_skipped += skip ? 1 : 0;
      if (!skip) finish(open_slot(id, number), error->status);
      return {};
    }
    return add(std::get<BatchRequest>(std::move(line)), number, skip);
  }

  Status add(BatchRequest request, std::int64_t number, bool skip) {
    auto prompt = engine_.encode(request.prompt);
    const std::int64_t num_tokens = prompt.ok() ? std::ssize(*prompt) : 0;
    if (skip) {
      ++summary_.num_skipped;
      return options_.done->check_same(request.id, number, num_tokens);
    }
    const SlotRef slot = open_slot(request.id, number);
    if (!prompt.ok()) {
      finish(slot, prompt.status());
      return {};
    }
    if (!options_.max_tokens_given && !request.max_tokens_given) {
      default_max_tokens(request.params, num_tokens, engine_.max_model_len());
    }
    slot->params.logprobs = request.params.logprobs;
    slot->params.return_forced_tokens = request.params.return_forced_tokens;
    slot->params.prompt_logprobs = request.params.prompt_logprobs;
    auto id = engine_.submit({.prompt_token_ids = std::move(*prompt),
                              .params = std::move(request.params),
                              .priority = request.queue.priority,
                              .cache_salt = std::move(request.queue.cache_salt),
                              .user = std::move(request.queue.user),
                              .deadline = request.queue.deadline},
                             [this, slot](const RequestOutput& output) { take(slot, output); });
    if (id.ok()) {
      slot->request_id = *id;
    } else {
      finish(slot, id.status());
    }
    return {};
  }

  SlotRef open_slot(const json::value& id, std::int64_t line) {
    slots_.emplace_back();
    slots_.back().id = id;
    slots_.back().line = line;
    return std::prev(slots_.end());
  }

  // On the engine's output thread.
  void take(SlotRef slot, const RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    slot->generation.add(output);
    output_tokens_ += std::ssize(output.token_ids);
    if (!output.request_finished) return;
    mark_done(slot, slot->generation.error);
  }

  void finish(SlotRef slot, Status error) {
    const std::lock_guard lock(mutex_);
    mark_done(slot, std::move(error));
  }

  void mark_done(SlotRef slot, Status error) {  // with the lock
    slot->error = std::move(error);
    slot->done = true;
    if (options_.unordered) finished_.push_back(slot);
    changed_.notify_one();
  }

  Status write(const Slot& slot) {
    if (was_aborted(slot) || slot.error.code() == StatusCode::kCancelled) {
      ++summary_.num_dropped;
      return {};
    }
    json::object record;
    if (slot.error.ok()) {
      record = generation_record(slot.id, slot.generation, slot.params);
    } else {
      record = error_record(slot.id, slot.line, slot.error);
    }
    QUIRE_RETURN_IF_ERROR(output_.write_text(json::serialize(record) + "\n"));
    ++summary_.num_requests;
    if (slot.error.ok()) {
      summary_.prompt_tokens += slot.generation.last.num_prompt_tokens;
      summary_.output_tokens += slot.generation.num_output_tokens();
    } else {
      ++summary_.num_errors;
    }
    return {};
  }

  BatchBackend& engine_;
  OutputFile& output_;
  const BatchOptions& options_;
  std::list<Slot> slots_;  // in input order; only the thread that runs the batch changes the list
  BatchSummary summary_;
  std::mutex mutex_;               // guards what is in the slots, and what follows
  std::vector<SlotRef> finished_;  // done and not written, where the order is free
  std::int64_t output_tokens_ = 0;
  std::condition_variable changed_;
};

}  // namespace

Result<std::vector<TokenId>> EngineBackend::encode(const BatchPrompt& prompt) const {
  if (const auto* text = std::get_if<std::string>(&prompt)) return engine_.encode_text(*text);
  if (const auto* messages = std::get_if<json::array>(&prompt)) {
    Conversation conversation;
    conversation.messages = *messages;
    return engine_.encode_chat(conversation);
  }
  return std::get<std::vector<TokenId>>(prompt);
}

void default_max_tokens(SamplingParams& params, std::int64_t prompt_tokens,
                        std::int64_t max_model_len) {
  params.max_tokens = std::max<std::int64_t>(1, max_model_len - prompt_tokens);
}

Result<BatchSummary> run_batch(BatchBackend& engine, std::istream& input, OutputFile& output,
                               const BatchOptions& options) {
  const SteadyClock clock;
  const Instant start = clock.now();
  BatchRun run(engine, output, options);
  LineReader reader(input);
  ProgressBar bar("generating", "requests");
  const auto note = [&] {
    const double seconds = std::max(to_seconds(clock.now() - start), 1e-9);
    return fmt::format("{:.1f} tokens/s", static_cast<double>(run.output_tokens()) / seconds);
  };
  const auto num_written = [&] { return static_cast<double>(run.summary().num_requests); };
  bool more = true;
  bool aborted = false;
  Status failure;
  while (failure.ok() && (more || !run.idle())) {
    while (failure.ok() && more && !options.interrupted() && !run.full()) {
      const auto line = reader.next();
      more = line.has_value();
      if (more) failure = run.add_line(*line, reader.line_number());
    }
    if (options.interrupted() && !aborted) {
      more = false;
      aborted = true;
      run.abort_all();
    }
    if (failure.ok()) failure = run.write_finished();
    bar.update(num_written(), 0, note());
  }
  if (!failure.ok()) {
    run.abort_all();
    run.wait_all();
    bar.clear();
    return failure;
  }
  BatchSummary summary = run.summary();
  summary.seconds = to_seconds(clock.now() - start);
  bar.finish(num_written(), 0, note());
  return summary;
}

}  // namespace quire
