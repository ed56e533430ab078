// The engine as its callers see it: submit a request, get its outputs, abort it, look at the state.
//
//   auto engine = Engine::create(args, {});
//   auto prompt = engine->encode_chat(messages);
//   auto id = engine->submit({.prompt_token_ids = *prompt, .params = params},
//                            [](const RequestOutput& output) { print(output.text); });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/status.h"
#include "core/sampling_params.h"
#include "core/scheduler.h"
#include "text/tokenizer.h"

namespace quire {

// Settings of an engine; names and defaults are those of the command line.
struct EngineArgs {
  std::string model;                    // a folder in Hugging Face layout, or a .gguf file
  std::string tokenizer;                // another folder or .gguf file to take the tokenizer from
  std::string dtype = "auto";           // auto, float32, bfloat16
  std::string kv_cache_dtype = "auto";  // auto, float32, bfloat16
  int threads = 0;                      // 0: the CPUs that affinity and cgroup quota grant
  std::int32_t block_size = 16;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 512;
  std::optional<std::uint64_t> kv_cache_memory_bytes;
  std::optional<std::int32_t> max_model_len;  // default: what the model was trained for
  std::uint64_t seed = 0;
};

// A prompt of token ids and how to continue it. Where `params.seed` is empty, the engine derives
// one from its own seed and the request's number.
struct GenerateRequest {
  std::vector<TokenId> prompt_token_ids;
  SamplingParams params;
};

struct RequestMetrics {
  Instant arrival{};
  std::optional<Instant> first_scheduled;
  std::optional<Instant> first_token;
  std::optional<Instant> finished;
  std::int32_t num_preemptions = 0;
};

// What happened to a request since its last output.
struct RequestOutput {
  RequestId request_id = 0;
  std::string text;                // new text, whole characters only
  std::vector<TokenId> token_ids;  // new tokens
  std::vector<float> logprobs;     // of those tokens, natural logarithm
  bool finished = false;
  std::optional<FinishReason> finish_reason;  // when finished without an error
  std::optional<std::string> stop_string;     // the one that matched
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_output_tokens = 0;  // so far
  RequestMetrics metrics;              // complete when finished
  Status error;                        // why the request ended without a finish reason
};

// Called on the engine's output thread, in order; must not block for long nor call submit().
using OutputSink = std::function<void(const RequestOutput&)>;

// Sizes and settings that an engine runs with, for people and reports.
struct EngineInfo {
  std::string model_name;
  std::string architecture;
  std::string isa_level;
  std::string activation;  // "float32", "int8 groups"
  std::string kv_cache_dtype;
  int threads = 0;
  std::int64_t vocab_size = 0;
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t activation_bytes = 0;
};

// Progress of loading, in bytes of the checkpoint.
using ProgressFn = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Engine {
 public:
  // Loads the model and starts the engine's threads. Errors name file, key or tensor.
  static Result<std::unique_ptr<Engine>> create(const EngineArgs& args, const ProgressFn& progress);
  ~Engine();  // aborts what runs, then joins the threads

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks and queues a request; any thread. The sink gets every output, the last one `finished`.
  // kInvalidArgument for a broken parameter, an unknown token id, an empty or too long prompt;
  // kResourceExhausted where the queue is full. After an error the sink is never called.
  Result<RequestId> submit(GenerateRequest request, OutputSink sink);

  // Ends a request; its sink gets a last output with FinishReason::kAbort. Unknown ids are ignored.
  void abort(RequestId request_id);

  // Prompts to token ids. A plain text is encoded as the tokenizer says (BOS where it adds one),
  // and control tokens spelled in it count, for who writes a whole prompt writes its template too.
  // A chat goes through the model's template, whose output gets no second BOS, and message text
  // never becomes a control token. kInvalidArgument for messages that the template refuses, kConfig
  // where the model has no template.
  std::vector<TokenId> encode_text(std::string_view text) const;
  Result<std::vector<TokenId>> encode_chat(json::array messages) const;

  const Tokenizer& tokenizer() const;
  const EngineInfo& info() const;
  SchedulerStats observe() const;  // after the last step
  Instant now() const;             // the clock of RequestMetrics

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
