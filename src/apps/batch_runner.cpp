#include "apps/batch_runner.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "apps/batch_input.h"
#include "apps/generation_record.h"
#include "apps/jsonl.h"

namespace quire {
namespace {

// One line in flight.
struct Slot {
  json::value id;
  std::int64_t line = 0;
  std::optional<RequestId> request_id;
  Generation generation;
  Status error;
  bool done = false;
};

Result<std::vector<TokenId>> encode(const Engine& engine, const BatchPrompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return engine.encode_text(*text);
  if (const auto* messages = std::get_if<json::array>(&prompt)) {
    return engine.encode_chat(*messages);
  }
  return std::get<std::vector<TokenId>>(prompt);
}

class BatchRun {
 public:
  BatchRun(Engine& engine, std::ostream& output) : engine_(engine), output_(output) {}

  // Slots that are not written yet.
  std::size_t in_flight() const { return slots_.size(); }
  const BatchSummary& summary() const { return summary_; }

  void add_error(json::value id, std::int64_t line, Status error) {
    auto slot = std::make_shared<Slot>();
    slot->id = std::move(id);
    slot->line = line;
    slot->error = std::move(error);
    slot->done = true;
    slots_.push_back(std::move(slot));
  }

  void add(BatchRequest request, std::int64_t line, bool max_tokens_given) {
    auto prompt = encode(engine_, request.prompt);
    if (!prompt.ok()) return add_error(std::move(request.id), line, prompt.status());
    auto prepared = prepare_request(engine_, std::move(*prompt), std::move(request.params),
                                    max_tokens_given || request.max_tokens_given);
    if (!prepared.ok()) return add_error(std::move(request.id), line, prepared.status());
    auto slot = std::make_shared<Slot>();
    slot->id = request.id;
    slot->line = line;
    auto id = engine_.submit(std::move(*prepared), [this, slot](const RequestOutput& output) {
      const std::lock_guard lock(mutex_);
      slot->generation.add(output);
      output_tokens_ += static_cast<std::int64_t>(output.token_ids.size());
      if (!output.finished) return;
      slot->error = output.error;
      slot->done = true;
      changed_.notify_one();
    });
    if (!id.ok()) return add_error(std::move(request.id), line, id.status());
    slot->request_id = *id;
    slots_.push_back(std::move(slot));
  }

  // Writes finished slots from the front; waits a little if the first is not finished.
  Status write_finished() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [&] { return slots_.empty() || slots_.front()->done; });
    while (!slots_.empty() && slots_.front()->done) {
      const std::shared_ptr<Slot> slot = std::move(slots_.front());
      slots_.pop_front();
      lock.unlock();
      QUIRE_RETURN_IF_ERROR(write(*slot));
      lock.lock();
    }
    return {};
  }

  void abort_all() {
    for (const auto& slot : slots_) {
      if (slot->request_id) engine_.abort(*slot->request_id);
    }
  }

  void wait_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::all_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->done; });
    });
  }

  std::int64_t output_tokens() {
    const std::lock_guard lock(mutex_);
    return output_tokens_;
  }

 private:
  Status write(const Slot& slot) {
    ++summary_.num_requests;
    json::object record;
    if (slot.error.ok()) {
      record = generation_record(slot.id, slot.generation);
      summary_.prompt_tokens += slot.generation.last.num_prompt_tokens;
      summary_.output_tokens += slot.generation.last.num_output_tokens;
    } else {
      ++summary_.num_errors;
      record = error_record(slot.id, slot.line, slot.error);
    }
    output_ << json::serialize(record) << '\n' << std::flush;
    if (!output_) {
      return Status::io_error(
          fmt::format("cannot write the record of line {}", slot.line),
          "check that the disk has room and the output's reader is still there");
    }
    return {};
  }

  Engine& engine_;
  std::ostream& output_;
  std::deque<std::shared_ptr<Slot>> slots_;
  BatchSummary summary_;
  std::mutex mutex_;  // guards the slots' contents and output_tokens_
  std::condition_variable changed_;
  std::int64_t output_tokens_ = 0;
};

}  // namespace

Result<GenerateRequest> prepare_request(const Engine& engine, std::vector<TokenId> prompt,
                                        SamplingParams params, bool max_tokens_given) {
  if (!max_tokens_given) {
    params.max_tokens = std::max<std::int64_t>(
        1, engine.info().max_model_len - static_cast<std::int64_t>(prompt.size()));
  }
  return GenerateRequest{.prompt_token_ids = std::move(prompt), .params = std::move(params)};
}

Result<BatchSummary> run_batch(Engine& engine, std::istream& input, std::ostream& output,
                               const SamplingParams& defaults, bool max_tokens_given,
                               std::int64_t window, const InterruptWatcher& interrupt) {
  const Instant start = engine.now();
  BatchRun run(engine, output);
  LineReader reader(input);
  ProgressBar bar("generating", "requests");
  const auto note = [&] {
    const double seconds = to_seconds(engine.now() - start);
    return fmt::format("{:.1f} tokens/s", static_cast<double>(run.output_tokens()) / seconds);
  };
  bool more = true;
  bool aborted = false;
  Status failure;
  while (failure.ok() && (more || run.in_flight() > 0)) {
    while (more && !interrupt.interrupted() && run.in_flight() < static_cast<std::size_t>(window)) {
      const auto line = reader.next();
      if (!line) {
        more = false;
      } else if (!line->ok()) {
        run.add_error(reader.line_number(), reader.line_number(), line->status());
      } else {
        BatchLine parsed = parse_batch_line(**line, reader.line_number(), defaults);
        if (auto* error = std::get_if<LineError>(&parsed)) {
          run.add_error(std::move(error->id), reader.line_number(), std::move(error->status));
        } else {
          run.add(std::get<BatchRequest>(std::move(parsed)), reader.line_number(),
                  max_tokens_given);
        }
      }
    }
    if (interrupt.interrupted() && !aborted) {
      more = false;
      aborted = true;
      run.abort_all();
    }
    failure = run.write_finished();
    bar.update(static_cast<double>(run.summary().num_requests), 0, note());
  }
  if (!failure.ok()) {
    run.abort_all();
    run.wait_all();  // requests in flight report into `run`
    return failure;
  }
  BatchSummary summary = run.summary();
  summary.seconds = to_seconds(engine.now() - start);
  bar.finish(static_cast<double>(summary.num_requests), 0, note());
  return summary;
}

}  // namespace quire
