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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/span_recorder.h"
#include "base/status.h"
#include "core/batch_former.h"
#include "core/finish_reason.h"
#include "core/sampling_params.h"
#include "core/sampling_table.h"
#include "core/step.h"
#include "core/structured_outputs_json.h"
#include "draft/speculative_config.h"
#include "engine/engine_state.h"
#include "load/embedding_defaults.h"
#include "load/model_facts.h"
#include "plan/memory_plan.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace quire {

struct TensorInfo;  // weights/weight_source.h

// Settings of an engine; names and defaults are those of the command line.
struct EngineArgs {
  std::string model;                    // a folder in Hugging Face layout, or a .gguf file
  std::string tokenizer;                // another folder or .gguf file with the tokenizer
  std::string chat_template;            // a file with a Jinja template, instead of the model's
  std::string dtype = "auto";           // auto, float32, bfloat16
  std::string kv_cache_dtype = "auto";  // auto, float32, bfloat16, fp8 (fp8_e4m3), int8
  std::string quantization = "none";    // of float weights at load: none, int8, int4
  std::string packed_weights_cache;     // folder for packed weights; empty: none
  std::string device = "auto";          // auto, cpu, cuda, cuda:N (engine/compute_device.h)
  // Of a model that a GPU computes, the processor's part (engine/layer_split.h): all layers but the
  // last so many, among which the output counts as one; and the experts of the first so many.
  std::optional<std::int32_t> n_gpu_layers;  // nullopt: all are the GPU's
  std::int32_t n_cpu_moe = 0;
  int threads = 0;  // 0: the physical cores that affinity and quota allow
  std::int32_t block_size = 16;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t max_steps_in_flight = 1;  // planned before the result of the first is known
  // Limit, by computing fewer prompt tokens, of a step that also gives other requests their next
  // token; 0: no limit; nullopt: the rule of engine/step_pacer.h.
  std::optional<double> max_step_ms = 0;
  std::optional<std::uint64_t> kv_cache_memory_bytes;
  // A folder for KV blocks that leave the prefix cache, so that they can come back from there;
  // empty: none. And how much of its disk they may use, in GiB.
  std::string kv_offload_path;
  double kv_offloading_size = 0;
  double gpu_memory_utilization = 0.9;  // share of this machine's memory that the plan may use
  std::optional<std::int32_t> max_model_len;  // default: the length of the model's training
  bool enable_chunked_prefill = true;
  bool enable_prefix_caching = true;
  double max_pinned_share = 0;                   // of the KV cache, for pinned prefixes at most
  std::string scheduling_policy = "fcfs";        // and others: engine_args.h
  std::string batching = "continuous";           // continuous, static, dynamic
  double max_batch_delay_ms = 100;               // how long a dynamic batch waits for more requests
  AdmissionPace admission;                       // how often waiting requests join running ones
  std::optional<SpeculativeConfig> speculation;  // drafts of tokens; nullopt: none
  bool prefault = false;                         // touch all memory at start
  std::int32_t max_queued_requests = 4096;  // waiting, besides the running ones; beyond: refused
  // Tokens that a constraint forces are computed several per step; the text does not change.
  bool jump_forward = true;
  std::int64_t max_logprobs = 20;          // maximum number of alternatives in a request
  std::string generation_config = "auto";  // auto: the model's generation_config.json; vllm: none
  std::string pooling_type = "auto";  // of embeddings: auto (as the model states), mean, cls, last
  std::optional<bool> normalize_embeddings;  // default: as the model states
  std::uint64_t seed = 0;
  std::string event_log;  // record the scheduler in files FILE.000001 and so on; empty: do not
  std::uint64_t event_log_segment_bytes = std::uint64_t{64} << 20;
  std::int64_t event_log_segments = 4;  // the oldest are removed
};

// A name by which a prompt's blocks stay in the prefix cache for a while (core/pinned_prefixes.h).
struct PinName {
  std::string owner;  // whose name it is; others neither see it nor clash with it
  std::string name;   // 1 to 64 letters, digits, and any of . _ : -
  Duration ttl{};     // 1 s to a day, from when the prompt is computed
};
// What is pinned.
struct PinState {
  std::string name;
  std::int64_t num_tokens = 0;
  std::int64_t num_blocks = 0;  // pages, where a block has several
  Instant expires_at{};
  std::int64_t num_hits = 0;  // requests that found all of it
};

// A prompt of token ids and how to continue it. Start from Engine::default_sampling_params(), which
// includes the values of the model's generation_config.json. If `params.seed` is empty, the engine
// derives a seed from its own seed and the request's number.
struct GenerateRequest {
  std::vector<TokenId> prompt_token_ids;
  SamplingParams params;
  std::int32_t priority = 0;  // lower goes first, with --scheduling-policy priority
  // In the prefix cache, it can only use the blocks of earlier requests with the same owner and
  // salt.
  std::string cache_owner = {};
  std::string cache_salt = {};
  std::string user = {};  // the user it counts for, with --scheduling-policy fair
  // Time until its answer should begin, with --scheduling-policy deadline; nullopt: a minute.
  std::optional<Duration> deadline = {};
  // Number of drafts in each step, if the engine speculates; they change no token.
  // nullopt: as many as make it faster; 0: none; otherwise this number, for measurements.
  std::optional<std::int32_t> drafts = {};
  // Compute RequestOutput::embedding instead of text; `params` then has no effect. It needs no room
  // for output: the prompt may have max_model_len tokens.
  bool embed = false;
  // Compute the prompt's full blocks, which are then pinned; instead of what has the name. `params`
  // then has no effect, and the output none either: one token, which means nothing.
  std::optional<PinName> pin = {};
  std::string external_id = {};  // the caller's name for it, for logs and pictures
  // It uses room in the queue that Engine::reserve() has reserved, so it is never refused because
  // the queue is full.
  bool reserved = false;
  // Special tokens that stay in the text although SamplingParams::skip_special_tokens hides the
  // others: a dialect's marks of calls and reasoning. In increasing order.
  std::vector<TokenId> shown_special_tokens = {};
};

struct RequestMetrics {
  Instant arrival{};
  std::optional<Instant> first_scheduled;
  std::optional<Instant> first_token;
  std::optional<Instant> finished;
  std::int32_t num_preemptions = 0;
  // Of this output, its shares of the steps that it took part in: a step's time is divided among
  // its outputs by the tokens that it computes for each.
  Duration step_time{};
};

// A token of a prompt or an output with its alternatives.
struct PositionLogprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // the most probable tokens, best first, as many as requested
};

// The cost of a request's constraint, for all outputs together.
struct ConstraintReport {
  double compile_ms = 0;
  bool cached = false;  // compiled by an earlier request
  std::int64_t num_masks = 0;
  double mask_ms = 0;           // to fill them, in parallel with steps
  bool told_in_prompt = false;  // StructuredOutputsParams::told_in_prompt
};

// What happened to one of a request's outputs since the last call. In a beam search
// (SamplingParams::beam_width) each output comes in one piece when the search is over; output 0 is
// the best one.
struct RequestOutput {
  RequestId request_id = 0;
  std::int32_t index = 0;          // which of the n outputs
  std::string text;                // new text, whole characters only
  std::vector<TokenId> token_ids;  // new tokens
  // Of those tokens; without SamplingParams::logprobs, everything but the ids is zero or empty.
  std::vector<PositionLogprobs> logprobs;
  // Of those tokens, with SamplingParams::return_forced_tokens: whether the mask allowed no other.
  // The same with jump-forward and without.
  std::vector<bool> forced_tokens;
  // With the first token of output 0, if SamplingParams::prompt_logprobs is set: entry i belongs to
  // prompt token i + 1, because nothing precedes the first.
  std::vector<PositionLogprobs> prompt_logprobs;
  bool finished = false;                      // this output has ended
  bool request_finished = false;              // and so have all n: the last call
  std::optional<FinishReason> finish_reason;  // when finished without an error
  std::optional<std::string> stop_string;     // the one that matched
  std::optional<TokenId> stop_token_id;       // the end-of-sequence or stop id that ended it
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_cached_tokens = 0;  // of the prompt, found in the cache; set when finished
  std::int64_t num_output_tokens = 0;  // so far
  // Drafts that were computed, set when finished: the right ones, which are among its
  // tokens, and the wrong ones.
  std::int64_t num_accepted_drafts = 0;
  std::int64_t num_rejected_drafts = 0;
  // When finished, if the engine has guessed at its tokens: what that took and gave.
  std::shared_ptr<const SpeculationReport> speculation;
  // Of the output so far, if logprobs are requested, and always in a beam search.
  double cumulative_logprob = 0;
  // With the last call of a request with `embed`: the final hidden states (after the last norm) of
  // the prompt's tokens, pooled by EngineInfo::embedding; hidden_size values, not normalized.
  std::vector<float> embedding;
  RequestMetrics metrics;  // complete when finished
  // When finished: where the output's time went, span by span. Null if it was refused or
  // the engine ended.
  std::shared_ptr<const RequestTimeline> timeline;
  // When finished, if SamplingParams::structured_outputs constrains it.
  std::optional<ConstraintReport> constraint;
  Status error;  // why the request ended without a finish reason
};

// Called on the engine's output thread, in order; must not block for long, nor call submit(). While
// one blocks, no request gets output, and the engine itself stops a few dozen steps later, because
// the number of results that wait for their sinks is limited.
using OutputSink = std::function<void(const RequestOutput&)>;

// Sizes and settings that an engine runs with, for people and reports.
struct EngineInfo {
  std::string model_name;
  std::string architecture;
  std::string device = "cpu";  // or the GPU's name
  std::string isa_level;       // whose kernels compute: ComputeDevice::level_name()
  // "float32", or "rounded" to the input type of a weight's products (bfloat16, int16 or int8).
  std::string activation;
  std::string kv_cache_dtype;
  std::string quantization;  // of float weights at load: "none", "int8", "int4"
  int threads = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  std::int32_t max_pinned_blocks = 0;  // of these, for pinned prefixes at most
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  bool continuous_batching = true;  // requests join at each step
  std::optional<SpeculativeConfig> speculation;
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
  ModelFacts model;
  EmbeddingDefaults embedding;
  MemoryPlan plan;  // all zero in a simulated engine
};

// One step as it was run, for reports and pictures.
struct StepShare {
  RequestId output_id = 0;  // RequestOutput::request_id + index
  std::int32_t num_tokens = 0;
  RowUse use = RowUse::kNothing;
  bool wanted = true;  // false: its output had ended, its row stays (static batching)
};
struct StepRecord {
  StepId step_id = 0;
  Instant start{};
  Instant end{};
  std::span<const StepShare> shares;  // valid during the call
};

// Where the time of an engine's threads goes. On the engine's thread each iteration of its loop is
// a span "step", on the executor's each step is a span "compute", on the output thread each step's
// results are a span "hand out", all with the step's id. Of a device that runs beside the
// executor's thread (a GPU) some steps are spans, too, whose ops ran one after the other for it.
struct EngineProfile {
  explicit EngineProfile(std::size_t capacity)
      : engine(capacity), executor(capacity), output(capacity), device(capacity) {}
  SpanRecorder engine;
  SpanRecorder executor;
  SpanRecorder output;
  SpanRecorder device;
};

// Observers of an engine's start and steps; each may be empty.
struct EngineObserver {
  std::function<void(const MemoryPlan& plan)> planned;  // before anything is loaded
  // Progress of loading, in bytes of the checkpoint.
  std::function<void(std::uint64_t done, std::uint64_t total)> loaded;
  std::function<void(const StepRecord& step)> stepped;  // after each; on the engine's thread
  // Filled while the engine exists, to be read after its destruction. Borrowed.
  EngineProfile* profile = nullptr;
};

// Whether an engine is alive. While it has work, `progress` grows several times per layer of the
// model: it keeps changing during a long step, but not when a step hangs.
struct EngineHeartbeat {
  Status failure;  // why the engine has stopped; ok while it runs
  bool busy = false;
  std::uint64_t progress = 0;
};

class Engine {
 public:
  // Loads the model and starts the engine's threads. Errors name file, key or tensor.
  static Result<std::unique_ptr<Engine>> create(const EngineArgs& args,
                                                const EngineObserver& observer);
  ~Engine();  // aborts running requests, then joins the threads

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The defaults of a request: vLLM's, overridden by generation_config.json.
  const SamplingParams& default_sampling_params() const;
  // Those of them that come from generation_config.json, by SamplingParams' names.
  std::span<const std::string> generation_config_fields() const;

  // Checks and queues a request; any thread. The sink gets every piece of its n outputs, the last
  // one with `request_finished`.
  // kInvalidArgument for an invalid parameter, an unknown token id, an empty or too long prompt;
  // kResourceExhausted if the queue is full. After an error the sink is never called.
  Result<RequestId> submit(GenerateRequest request, OutputSink sink);

  // The error of submit() for this request, whatever the state of the queue; any thread.
  Status check(const GenerateRequest& request) const;

  // Compiles SamplingParams::structured_outputs on this thread, within the limits of
  // text/grammar/limits.h (about two seconds), unless that is done; no effect without a constraint.
  // submit() and check() do the same; a caller that must not wait calls this elsewhere first.
  // kInvalidArgument, beginning with the constraint's field, if it is invalid;
  // kUnimplemented; kCancelled if `cancelled`, which may be empty, returns true. Any thread.
  Status prepare(const SamplingParams& params, const std::function<bool()>& cancelled = {}) const;
  // Whether that is done at the moment: only the latest constraints are kept. Any thread.
  bool is_prepared(const SamplingParams& params) const;

  // Reserves room in the queue for `num_outputs` outputs (a request has n), whose requests are
  // submitted later, with GenerateRequest::reserved; each uses its part. kResourceExhausted if
  // there is not enough room; then nothing is reserved. Any thread.
  Status reserve(std::int64_t num_outputs);
  // Releases room that no request has used; a request that submit() refused has used none.
  void release(std::int64_t num_outputs);

  // Ends all outputs of a request; the sink gets their last pieces with FinishReason::kAbort.
  // Unknown ids are ignored.
  void abort(RequestId request_id);

  // Empties the prefix cache, except for blocks in use, for requests that are submitted after this;
  // nothing is pinned any more. Any thread; returns at once.
  void reset_prefix_cache();

  // Pinned prefixes; any thread. They are made by submit(), which refuses what does not fit into
  // the share of the cache that may be pinned (kResourceExhausted), and go at their time, by
  // unpin(), with the prefix cache and with the engine. Where the same prompt is pinned by the same
  // name, its time begins anew; false: it is not.
  bool renew_pin(const GenerateRequest& request);
  Status unpin(std::string_view owner, std::string_view name);  // kNotFound
  // Calls `look` once, as inspect(), with what is pinned by the names of this owner.
  void list_pins(std::string owner, std::function<void(std::vector<PinState>)> look);

  // Replaces tensors of the model between two steps: names and shapes are the checkpoint's, numbers
  // F32, F16 or BF16; only `data` is read. Afterwards the engine is as if it was loaded with them,
  // and its prefix cache is empty; replaced matrices are in memory twice during the call. Any
  // thread but the engine's; waits. After an error the model is unchanged: kUnavailable if
  // requests run or wait, and the errors of WeightUpdater::update() (models/weight_updater.h).
  Status update_weights(const std::vector<TensorInfo>& tensors);

  // Prompts to token ids. A plain text is encoded by the tokenizer's rules (BOS if it adds one),
  // and control tokens spelled in it count: whoever writes a whole prompt also writes its template.
  // A chat goes through the model's template, whose output gets no second BOS, and message text
  // never becomes a control token. kInvalidArgument for messages that the template refuses, kConfig
  // if the model has no template, kResourceExhausted if the text reaches a limit of the
  // tokenizer's pattern. `limits`: see Tokenizer::encode.
  Result<std::vector<TokenId>> encode_text(std::string_view text) const;
  Result<std::vector<TokenId>> encode_chat(const Conversation& conversation,
                                           bool add_special_tokens = false,
                                           const EncodeLimits& limits = {}) const;

  // The text that encode_chat() encodes. Same errors.
  Result<std::string> render_chat(const Conversation& conversation) const;
  // The template's source; empty if the model has none.
  std::string_view chat_template() const;

  const Tokenizer& tokenizer() const;
  const EngineInfo& info() const;
  EngineStats observe() const;  // after the last step
  EngineHeartbeat heartbeat() const;
  // Calls `look` once on the engine's thread, between two steps, with the current state: it
  // must be quick and keep no pointer. The state is null if the engine has ended. Any thread;
  // returns at once.
  void inspect(std::function<void(const EngineState*)> look);
  Instant now() const;  // the clock of RequestMetrics

 private:
  friend Result<std::unique_ptr<Engine>> assemble_engine(struct EngineParts parts);
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
