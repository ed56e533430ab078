#include "apps/bench_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "apps/generation_record.h"
#include "apps/progress.h"
#include "base/random.h"

namespace quire {
namespace {

// Follows one after the other all tokens of a run.
std::uint64_t hash_tokens(const std::vector<std::vector<TokenId>>& outputs) {
  std::uint64_t hash = 0;
  for (const auto& output : outputs) {
    hash = random_bits(hash, output.size());
    for (const TokenId id : output) hash = random_bits(hash, static_cast<std::uint64_t>(id));
  }
  return hash;
}

// What the output thread reports and the submitting thread waits for.
class LoadRun {
 public:
  explicit LoadRun(LoadResult& result)
      : result_(result), outputs_(static_cast<std::size_t>(result.shape.num_prompts)) {}

  void add(std::int64_t index, const RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    auto& tokens = outputs_[static_cast<std::size_t>(index)];
    tokens.insert(tokens.end(), output.token_ids.begin(), output.token_ids.end());
    result_.output_tokens += static_cast<std::int64_t>(output.token_ids.size());
    if (!output.finished) return;
    if (!output.error.ok()) error_ = output.error;
    result_.prompt_tokens += output.num_prompt_tokens;
    result_.num_preemptions += output.metrics.num_preemptions;
    const RequestTimings timings = request_timings(output);
    result_.ttft_s.push_back(timings.ttft_s);
    if (output.num_output_tokens > 1) result_.tpot_s.push_back(timings.tpot_s);
    ++finished_;
    changed_.notify_one();
  }

  // Waits until at least `target` requests have ended or a moment has passed; how many have.
  std::int64_t wait_for(std::int64_t target) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return finished_ >= target; });
    return finished_;
  }

  Status error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  std::int64_t output_tokens() {
    const std::lock_guard lock(mutex_);
    return result_.output_tokens;
  }

  std::uint64_t output_hash() {
    const std::lock_guard lock(mutex_);
    return hash_tokens(outputs_);
  }

 private:
  LoadResult& result_;
  std::vector<std::vector<TokenId>> outputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t finished_ = 0;
  Status error_;
};

}  // namespace

std::int64_t LoadShape::output_len_of(std::int64_t index) const {
  if (!max_geometric_len) return output_len;
  // Inverse of the distribution function: P(length > k) = (1 - 1 / mean)^k.
  const double uniform = random_uniform(mix64(seed + 1), static_cast<std::uint64_t>(index));
  const double stay = 1.0 - 1.0 / static_cast<double>(output_len);
  const double length = stay > 0 ? std::ceil(std::log(1.0 - uniform) / std::log(stay)) : 1.0;
  return std::clamp(static_cast<std::int64_t>(length), std::int64_t{1}, *max_geometric_len);
}

std::vector<TokenId> random_prompt(const Engine& engine, std::int64_t length,
                                   std::uint64_t stream) {
  const auto vocab = static_cast<std::uint64_t>(engine.tokenizer().vocab_size());
  std::vector<TokenId> prompt;
  for (std::uint64_t i = 0; prompt.size() < static_cast<std::size_t>(length); ++i) {
    const auto token = static_cast<TokenId>(random_bits(stream, i) % vocab);
    if (!engine.tokenizer().is_special(token)) prompt.push_back(token);
  }
  return prompt;
}

Result<LoadResult> run_load(Engine& engine, const LoadShape& shape,
                            const InterruptWatcher& interrupt) {
  LoadResult result;
  result.shape = shape;
  LoadRun run(result);
  ProgressBar bar(fmt::format("{} at once", shape.concurrency), "requests");
  std::vector<RequestId> ids;
  const Instant start = engine.now();
  std::int64_t submitted = 0;
  std::int64_t finished = 0;
  Status failure;
  while (finished < submitted || (failure.ok() && submitted < shape.num_prompts)) {
    while (failure.ok() && submitted < shape.num_prompts &&
           submitted - finished < shape.concurrency) {
      GenerateRequest request;
      request.prompt_token_ids = random_prompt(
          engine, shape.input_len, random_bits(shape.seed, static_cast<std::uint64_t>(submitted)));
      request.params.temperature = 0;
      request.params.max_tokens = shape.output_len_of(submitted);
      request.params.ignore_eos = true;
      const auto id = engine.submit(
          std::move(request),
          [&run, index = submitted](const RequestOutput& output) { run.add(index, output); });
      if (!id.ok()) {
        failure = id.status();
        break;
      }
      ids.push_back(*id);
      ++submitted;
    }
    if (failure.ok() && interrupt.interrupted()) {
      failure = Status(StatusCode::kCancelled, "interrupted");
    }
    if (!failure.ok()) {
      for (const RequestId id : ids) engine.abort(id);
    }
    finished = run.wait_for(finished + 1);
    bar.update(static_cast<double>(finished), static_cast<double>(shape.num_prompts),
               fmt::format("{:.1f} tokens/s", static_cast<double>(run.output_tokens()) /
                                                  to_seconds(engine.now() - start)));
  }
  result.elapsed_s = to_seconds(engine.now() - start);
  bar.clear();
  QUIRE_RETURN_IF_ERROR(failure);
  QUIRE_RETURN_IF_ERROR(run.error());
  result.output_hash = run.output_hash();
  return result;
}

json::object to_json(const LoadResult& result) {
  json::object report;
  report["concurrency"] = result.shape.concurrency;
  report["input_len"] = result.shape.input_len;
  report["output_len"] = result.shape.output_len;
  report["num_prompts"] = result.shape.num_prompts;
  report["elapsed_s"] = result.elapsed_s;
  report["output_tokens_per_s"] = result.output_tokens_per_s();
  report["total_tokens_per_s"] = result.total_tokens_per_s();
  report["num_preemptions"] = result.num_preemptions;
  report["ttft_s"] = to_json(statistics(result.ttft_s));
  report["tpot_s"] = to_json(statistics(result.tpot_s));
  return report;
}

}  // namespace quire
