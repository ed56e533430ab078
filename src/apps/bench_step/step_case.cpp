#include "apps/bench_step/step_case.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

#include <fmt/format.h>

#include "apps/bench_load.h"
#include "apps/engine_flags.h"
#include "apps/progress.h"
#include "base/checked.h"
#include "core/kv_group.h"

namespace quire {
namespace {

// Steps of the right shape that are not counted: their memory is touched for the first time.
constexpr std::int64_t kWarmUpSteps = 4;

// About 14 MB a thread; 900 steps of a decoder with 30 layers. Later spans replace earlier ones.
constexpr std::size_t kProfileSpans = std::size_t{1} << 18;

// Looks on from the engine's threads until the wanted steps have been seen.
class StepWatch {
 public:
  StepWatch(const StepCase& shape, std::int64_t num_steps)
      : shape_(shape), num_steps_(static_cast<std::size_t>(num_steps)) {
    ids_.reserve(num_steps_);
    seconds_.reserve(num_steps_);
  }

  void stepped(const StepRecord& step) {
    const std::lock_guard lock(mutex_);
    if (done()) return;
    if (last_id_ != 0 && last_id_ + 1 == step.step_id && num_seen_ > kWarmUpSteps) {
      ids_.push_back(last_id_);
      seconds_.push_back(to_seconds(step.start - last_start_));
      tokens_known_ += last_tokens_known_;
      if (done()) changed_.notify_one();
    }
    const bool fits = has_shape(step.shares);
    last_id_ = fits ? step.step_id : 0;
    last_start_ = step.start;
    last_tokens_known_ = num_sampled_;
    num_sampled_ += std::ranges::count_if(
        step.shares, [](const StepShare& share) { return share.use == RowUse::kTokens; });
    if (fits) ++num_seen_;
  }

  void received(const RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    if (!output.finished) return;
    if (!output.error.ok()) error_ = output.error;
    ++num_ended_;
    changed_.notify_one();
  }

  // Until the steps are there, all of `num_requests` have ended, or an interrupt.
  Status wait(std::int64_t num_requests, const InterruptWatcher& interrupt) {
    ProgressBar bar(shape_.name(), "steps");
    std::unique_lock lock(mutex_);
    while (!done() && error_.ok() && num_ended_ < num_requests) {
      if (interrupt.interrupted()) return {StatusCode::kCancelled, "interrupted"};
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      bar.update(static_cast<double>(ids_.size()), static_cast<double>(num_steps_), "");
    }
    bar.clear();
    QUIRE_RETURN_IF_ERROR(error_);
    if (done()) return {};
    return Status::config(
        fmt::format("{}: only {} of {} steps had this shape", shape_.name(), ids_.size(),
                    num_steps_),
        "raise --max-num-batched-tokens or --kv-cache-memory-bytes, or measure fewer tokens");
  }

  // After the engine has gone.
  std::vector<StepId> take_ids() { return std::move(ids_); }
  std::vector<double> take_seconds() { return std::move(seconds_); }
  // Output tokens that the sequences together knew, mean over the steps.
  double mean_outputs_known() const {
    return static_cast<double>(tokens_known_) / static_cast<double>(num_steps_);
  }

 private:
  bool done() const { return ids_.size() == num_steps_; }

  bool has_shape(std::span<const StepShare> shares) const {
    const bool decode = shape_.kind == StepCase::Kind::kDecode;
    const std::int64_t sequences = decode ? shape_.size : 1;
    const std::int64_t tokens = decode ? 1 : shape_.size;
    return std::ssize(shares) == sequences &&
           std::ranges::all_of(shares, [tokens](const StepShare& share) {
             return share.num_tokens == tokens && share.use == RowUse::kTokens && share.wanted;
           });
  }

  const StepCase shape_;
  const std::size_t num_steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepId> ids_;
  std::vector<double> seconds_;
  StepId last_id_ = 0;  // of the step before, if it had the shape
  Instant last_start_{};
  std::int64_t last_tokens_known_ = 0;  // output tokens of all sequences, before that step
  std::int64_t num_sampled_ = 0;        // so far
  std::int64_t tokens_known_ = 0;       // summed over the steps that count
  std::int64_t num_seen_ = 0;
  std::int64_t num_ended_ = 0;
  Status error_;
};

// What is submitted for a case, all at once.
struct Requests {
  std::int64_t count = 0;
  std::int64_t input_len = 0;
  std::int64_t output_len = 0;
};

Requests requests_for(const StepCase& shape, std::int64_t num_steps, const EngineArgs& args) {
  const std::int64_t steps = num_steps + kWarmUpSteps + 1;
  if (shape.kind == StepCase::Kind::kPrefill) return {steps, shape.size, 1};
  // The first sequence goes on while the prompts of the others are computed.
  const std::int64_t chunk =
      std::max<std::int64_t>(args.max_num_batched_tokens - shape.size + 1, 1);
  const std::int64_t prompt_steps = ceil_div(shape.size * shape.context_len, chunk) + shape.size;
  return {shape.size, shape.context_len, steps + prompt_steps};
}

Status check_fits(const StepCase& shape, const Requests& requests, const EngineArgs& args,
                  const EngineInfo& info) {
  if (shape.size > args.max_num_batched_tokens) {
    return Status::config(fmt::format("{}: a step computes at most {} tokens", shape.name(),
                                      args.max_num_batched_tokens),
                          "raise --max-num-batched-tokens");
  }
  const std::int64_t tokens = requests.input_len + requests.output_len;
  if (tokens > info.max_model_len) {
    return Status::invalid_argument(
        fmt::format("{}: a sequence gets up to {} tokens; at most {} fit with --max-model-len",
                    shape.name(), tokens, info.max_model_len),
        "measure fewer --steps or a shorter --context-len or --prefill-len");
  }
  const std::int64_t sequences = shape.kind == StepCase::Kind::kDecode ? shape.size : 1;
  std::vector<KvGroup> groups;
  for (const PlannedKvGroup& group : info.plan.kv_groups) {
    const bool state = group.state_bytes != 0;
    groups.push_back({.window = state ? KvGroup::kStateWindow : group.window,
                      .pages_per_block = static_cast<std::int32_t>(group.pages_per_block),
                      .state = state});
  }
  const std::int64_t blocks =
      max_pages_of_all(groups, sequences, tokens, args.max_num_batched_tokens, info.block_size);
  if (blocks > info.num_blocks) {
    return Status::config(fmt::format("{}: needs up to {} KV pages, the pool has {}", shape.name(),
                                      blocks, info.num_blocks),
                          "raise --kv-cache-memory-bytes, or measure fewer tokens");
  }
  return {};
}

// The engine is stopped until it can read all of them between two steps: else those of a fast model
// would come and go one by one.
Status submit_all(Engine& engine, const Requests& requests, StepWatch& watch) {
  std::promise<void> submitted;  // its end, too, lets the engine go on
  engine.inspect(
      [all = submitted.get_future().share()](const EngineState* /*state*/) { all.wait(); });
  for (std::int64_t i = 0; i < requests.count; ++i) {
    GenerateRequest request;
    request.prompt_token_ids =
        random_prompt(engine, requests.input_len, static_cast<std::uint64_t>(i) + 1);
    request.params.temperature = 0;
    request.params.max_tokens = requests.output_len;
    request.params.ignore_eos = true;
    const auto sink = [&watch](const RequestOutput& output) { watch.received(output); };
    QUIRE_ASSIGN_OR_RETURN(const RequestId id, engine.submit(std::move(request), sink));
    static_cast<void>(id);
  }
  return {};
}

}  // namespace

std::string StepCase::name() const {
  return fmt::format("{} {}", kind == Kind::kDecode ? "decode" : "prefill", size);
}

Result<StepCaseResult> run_step_case(EngineArgs args, const StepCase& shape, std::int64_t num_steps,
                                     bool profiled, const InterruptWatcher& interrupt) {
  const Requests requests = requests_for(shape, num_steps, args);
  args.max_num_seqs =
      static_cast<std::int32_t>(shape.kind == StepCase::Kind::kDecode ? shape.size : 1);
  args.max_queued_requests =
      static_cast<std::int32_t>(std::max<std::int64_t>(args.max_queued_requests, requests.count));

  StepCaseResult result;
  result.shape = shape;
  if (profiled) result.profile = std::make_unique<EngineProfile>(kProfileSpans);
  StepWatch watch(shape, num_steps);
  {
    QUIRE_ASSIGN_OR_RETURN(
        const auto engine,
        start_engine(
            args, [&watch](const StepRecord& step) { watch.stepped(step); }, result.profile.get()));
    result.info = engine->info();
    QUIRE_RETURN_IF_ERROR(check_fits(shape, requests, args, result.info));
    QUIRE_RETURN_IF_ERROR(submit_all(*engine, requests, watch));
    QUIRE_RETURN_IF_ERROR(watch.wait(requests.count, interrupt));
  }
  result.step_ids = watch.take_ids();
  result.step_s = watch.take_seconds();
  if (shape.kind == StepCase::Kind::kDecode) {
    result.context_mean = static_cast<double>(shape.context_len) +
                          watch.mean_outputs_known() / static_cast<double>(shape.size);
  }
  return result;
}

}  // namespace quire
