// Tokens to RequestOutputs, on a thread of its own: detokenizes, matches stop strings, calls each
// request's sink. The engine thread only hands over its step's results, in memory that goes to and
// fro between the two threads, so that a step allocates nothing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/scheduler.h"
#include "core/step.h"
#include "engine/api.h"
#include "engine/constraints/constraint_work.h"
#include "engine/step_result.h"
#include "engine/stop_matcher.h"
#include "text/detokenizer.h"

namespace quire {

class OutputProcessor {
 public:
  static constexpr std::size_t kMaxQueuedSteps = 64;

  // `abort` is called from the output thread when a stop string has matched: the same command as a
  // client's going away. The output thread records in `spans`, unless it is null.
  OutputProcessor(const Tokenizer& tokenizer, std::function<void(RequestId)> abort,
                  SpanRecorder* spans = nullptr, const StepResultLimits& limits = {});
  ~OutputProcessor() { stop(); }

  // Hands out everything queued, then joins the thread.
  void stop();

  // Announces a request with the ids request_id .. request_id + n - 1; must come before any of its
  // tokens. `speculation`: of each output, complete once that has ended; null where nothing is
  // guessed. Any thread.
  void add(RequestId request_id, std::span<const TokenId> prompt_token_ids,
           const SamplingParams& params, OutputSink sink,
           std::shared_ptr<const ConstraintWork> constraint = nullptr,
           std::span<const TokenId> shown_special_tokens = {},
           std::shared_ptr<const std::vector<SpeculationReport>> speculation = nullptr);

  // Forgets a request that never reached the engine; its sink is not called. False where it was
  // failed with all others meanwhile: then the sink gets that, or has got it.
  bool remove(RequestId request_id);

  // How many outputs a request has (its n); 0 once all have ended. Any thread.
  std::int32_t num_outputs(RequestId request_id) const;

  // Outputs of all requests that have not ended. Any thread.
  std::int64_t num_unfinished() const;

  // Takes a step's results and leaves an earlier step's objects in their place, to be filled again.
  // Waits while kMaxQueuedSteps steps, or limits.queue_bytes(), wait for their sinks: the engine
  // then goes no faster than its outputs are read. Sinks run in this process and must not block;
  // one that does stops all requests, which shows as an engine without a sign of life. Engine
  // thread.
  void push(StepResult& step);
  // An output that ended without a token (aborted), a request that was refused, or the end of all
  // of them. Engine thread.
  void push_aborted(std::unique_ptr<const Request> request);
  void push_failed(RequestId request_id, Status error);
  void push_all_failed(Status error);

 private:
  // What the n outputs of a request have in common.
  struct Group {
    RequestId request_id = 0;
    OutputSink sink;
    std::int32_t num_outputs = 1;
    std::int32_t num_unfinished = 1;
    std::int64_t num_prompt_tokens = 0;
    std::vector<PositionLogprobs> prompt_logprobs;     // until they are handed out
    std::shared_ptr<const ConstraintWork> constraint;  // null: any text
    std::shared_ptr<const std::vector<SpeculationReport>> speculation;
  };
  struct State {
    State(const Detokenizer& start, const SamplingParams& params, std::shared_ptr<Group> request,
          std::int32_t output_index);
    std::shared_ptr<Group> group;
    std::int32_t index = 0;
    Detokenizer detokenizer;
    StopMatcher stop;
    std::int64_t min_tokens = 0;  // text of these first tokens is not searched for stop strings
    bool returns_forced = false;  // SamplingParams::return_forced_tokens
    std::int64_t num_output_tokens = 0;
    double cumulative_logprob = 0;
    // Set once a stop string has matched: the last output, which waits for the scheduler to let the
    // request go. Tokens that come meanwhile are not part of it.
    std::optional<RequestOutput> last;
  };
  using Aborted = std::unique_ptr<const Request>;
  struct Failed {
    std::optional<RequestId> request_id;  // empty: all requests
    Status error;
  };
  using Item = std::variant<StepResult, Aborted, Failed>;

  void enqueue(Item item);
  void run();
  void recycle(StepResult step);
  void process(const StepResult& step);
  void process_step(const StepResult& step);
  void give_up(RequestId output_id);
  void process(const Aborted& request);
  void process(const Failed& failed);
  void find_states(const StepResult& step);
  void process_tokens(State& state, const RequestStepOutput& given, const StepResult& step);
  // The token at `place` of the step's. `request`: the one that ended with it; null where it goes
  // on.
  void process_token(State& state, std::size_t place, const Request* request,
                     const StepResult& step);
  void process_pooled(const RequestStepOutput& pooled, const ModelRunnerOutput& result);
  // A beam search is over: all outputs of its request, each in one piece.
  void process_beams(const Request& request);
  // Its outputs end without having had any.
  void abort_beams(const Request& request);
  void add_prompt_token(const PromptToken& token, const ModelRunnerOutput& result);
  StopMatcher::Match match_text(State& state, TokenId token_id, bool ends) const;
  RequestOutput& start_output();
  static void hand_out(State& state, RequestOutput& output);
  // Throws nothing for want of memory: then the sink is told that.
  void finish(RequestId output_id, const Request* request, RequestOutput output);
  State* find(RequestId output_id) const;

  const Tokenizer& tokenizer_;
  std::function<void(RequestId)> abort_;
  SpanRecorder* spans_;
  // Guards the queues, stopping_ and the map s (not what is in them: that is the output thread's).
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable room_;  // a step has been handed out
  std::vector<Item> queue_;
  std::vector<StepResult> spare_;  // processed, to be filled again
  std::size_t queue_bytes_;        // the bound of the next two
  std::size_t queued_bytes_ = 0;   // of steps that are queued or being handed out
  std::size_t spare_bytes_ = 0;
  std::size_t num_queued_steps_ = 0;
  bool stopping_ = false;
  std::unordered_map<RequestId, std::unique_ptr<State>> states_;  // by the id of each output
  std::unordered_map<RequestId, std::shared_ptr<Group>> groups_;  // by the id of the first
  // Reused from token to token and from step to step. Output thread only.
  RequestOutput output_;
  std::vector<State*> step_states_;  // of the step's outputs; null where there is none any more
  std::thread thread_;
};

}  // namespace quire
