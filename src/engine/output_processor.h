// Tokens to RequestOutputs, on a thread of its own: detokenizes, matches stop strings, calls each
// request's sink. The engine thread only appends to its queue.
#pragma once

#include <condition_variable>
#include <deque>
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
#include "engine/api.h"
#include "engine/stop_matcher.h"
#include "text/detokenizer.h"

namespace quire {

class OutputProcessor {
 public:
  // `abort` is called from the output thread when a stop string has matched: the same command as a
  // client's going away.
  OutputProcessor(const Tokenizer& tokenizer, std::function<void(RequestId)> abort);
  ~OutputProcessor() { stop(); }

  // Hands out everything queued, then joins the thread.
  void stop();

  // Announces a request; must come before any of its tokens. Any thread.
  void add(RequestId request_id, std::span<const TokenId> prompt_token_ids,
           const SamplingParams& params, OutputSink sink);

  // Forgets a request that never reached the engine; its sink is not called.
  void remove(RequestId request_id);

  // A step's tokens, a request that ended without one (aborted), one that was refused, or the end
  // of all of them. Engine thread.
  void push(std::vector<RequestStepOutput> outputs);
  void push_aborted(std::unique_ptr<const Request> request);
  void push_failed(RequestId request_id, Status error);
  void push_all_failed(Status error);

 private:
  struct State {
    State(const Tokenizer& tokenizer, std::span<const TokenId> prompt, const SamplingParams& params,
          OutputSink output_sink);
    Detokenizer detokenizer;
    StopMatcher stop;
    OutputSink sink;
    std::int64_t num_prompt_tokens = 0;
    std::int64_t num_output_tokens = 0;
    // Set once a stop string has matched: the last output, which waits for the scheduler to let the
    // request go. Tokens that come meanwhile are not part of it.
    std::optional<RequestOutput> last;
  };
  using Tokens = std::vector<RequestStepOutput>;
  using Aborted = std::unique_ptr<const Request>;
  struct Failed {
    std::optional<RequestId> request_id;  // empty: all requests
    Status error;
  };
  using Item = std::variant<Tokens, Aborted, Failed>;

  void enqueue(Item item);
  void run();
  void process(const Tokens& tokens);
  void process(const Aborted& request);
  void process(const Failed& failed);
  void process_token(const RequestStepOutput& token);
  void finish(RequestId request_id, const Request* request, RequestOutput output);
  State* find(RequestId request_id);

  const Tokenizer& tokenizer_;
  std::function<void(RequestId)> abort_;
  std::mutex mutex_;  // guards queue_, stopping_ and the map (not the states: the output thread's)
  std::condition_variable wake_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::unordered_map<RequestId, std::unique_ptr<State>> states_;
  std::thread thread_;
};

}  // namespace quire
