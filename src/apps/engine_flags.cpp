#include "apps/engine_flags.h"

#include <limits>
#include <string>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "apps/local_model.h"
#include "apps/progress.h"
#include "base/log.h"
#include "engine/engine_args.h"

namespace quire {
namespace {

void add_max_step(CLI::App& app, EngineArgs& args, const std::string& group) {
  const std::string name = "--max-step-ms";
  app.add_option_function<std::string>(
         name,
         [&args, name](const std::string& text) {
           if (text == "auto") {
             args.max_step_ms.reset();
             return;
           }
           double value = 0;
           if (!CLI::detail::lexical_cast(text, value)) {
             throw CLI::ValidationError(name, "expected milliseconds, 0 or auto");
           }
           args.max_step_ms = value;
         },
         "Limit of a step's duration while other requests generate, by computing fewer prompt "
         "tokens: milliseconds, 0 (no limit) or auto (twelve times one request's step, at least "
         "100 ms and twice the time of all running requests alone)")
      ->type_name("MS")
      ->default_str(args.max_step_ms ? fmt::format("{:g}", *args.max_step_ms) : "auto")
      ->group(group);
}

// What a model leaves to the processor where the GPU's memory ends.
void add_split(CLI::App& app, EngineArgs& args, const std::string& group) {
  const std::string name = "--n-gpu-layers";
  app.add_option_function<std::string>(
         name,
         [&args, name](const std::string& text) {
           if (text == "all") return args.n_gpu_layers.reset();
           std::int32_t value = 0;
           if (!CLI::detail::lexical_cast(text, value) || value < 0 || value > kMostLayers) {
             throw CLI::ValidationError(
                 name, fmt::format("expected 0 to {} or all, found {}", kMostLayers, text));
           }
           args.n_gpu_layers = value;
         },
         "Layers that a GPU computes, the last ones, among which the output counts as one; the "
         "processor computes the others in its own memory. More than there are, or all: all")
      ->type_name("N")
      ->default_str("all")
      ->group(group);
  app.add_option("--n-cpu-moe", args.n_cpu_moe,
                 "Of a mixture that a GPU computes: the experts of the first N layers stay in the "
                 "machine's memory, where the processor computes them")
      ->type_name("N")
      ->check(whole_number(0, kMostLayers))
      ->capture_default_str()
      ->group(group);
}

void add_speculation(CLI::App& app, EngineArgs& args, const std::string& group) {
  const std::string name = "--speculative-config";
  app.add_option_function<std::string>(
         name,
         [&args](const std::string& text) {
           if (text.empty() || text == "None" || text == "null") return args.speculation.reset();
           auto config = SpeculativeConfig::parse(text);
           if (!config.ok()) throw CLI::ValidationError(config.status().to_string());
           args.speculation = *config;
         },
         "Guess tokens ahead where that is faster, without changing any output. A JSON object: "
         "method \"ngram\" (find the last tokens in prompt and output), \"suffix\", "
         "\"draft_model\", \"eagle\", \"eagle3\" or \"medusa\" (with its model) or \"mtp\", "
         "num_speculative_tokens, speculative_token_tree, prompt_lookup_min and "
         "prompt_lookup_max (docs/speculation.md)")
      ->type_name("JSON")
      ->group(group);
}

}  // namespace

void add_engine_flags(CLI::App& app, EngineArgs& args) {
  const std::string model_group = "Model";
  const std::string machine_group = "Machine and batch";
  const std::string group = std::string(kRarelyNeeded) + "engine";
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  add_model(app, args.model,
            "ORG/NAME[@REV][:GGUF] of the Hugging Face hub, a folder in its layout, a .gguf file, "
            "or a URL of one (https:, s3:, file:) (default: the bundled SmolLM2-135M-Instruct)",
            model_group);
  app.add_option("--tokenizer", args.tokenizer,
                 "Model whose tokenizer is used, named like MODEL (default: the model)")
      ->type_name("MODEL")
      ->group(model_group);
  add_revision(app, args.tokenizer, "--tokenizer-revision", model_group);
  app.add_option("--chat-template", args.chat_template,
                 "File with a Jinja chat template (default: the model's)")
      ->type_name("FILE")
      ->group(model_group);
  app.add_option("--dtype", args.dtype, "Arithmetic")
      ->type_name("TYPE")
      ->check(known_names("auto|float32|bfloat16"))
      ->capture_default_str()
      ->group(model_group);
  app.add_option("--kv-cache-dtype", args.kv_cache_dtype,
                 "Type of the keys and values in the KV cache; fp8 is fp8_e4m3")
      ->type_name("TYPE")
      ->check(known_names("auto|float32|bfloat16|fp8|int8"))
      ->capture_default_str()
      ->group(model_group);
  app.add_option("--quantization", args.quantization,
                 "Quantize F32, F16 or BF16 weights while loading: int8 (a scale per output) or "
                 "int4 (a scale and a minimum per 128 inputs; embeddings and logits int8)")
      ->type_name("KIND")
      ->check(known_names("none|int8|int4"))
      ->transform([](const std::string& name) {
        const std::string lower = CLI::detail::to_lower(name);
        return lower == "gguf" ? std::string("none") : lower;
      })
      ->capture_default_str()
      ->group(model_group);
  app.add_option("--packed-weights-cache", args.packed_weights_cache,
                 "Folder for the packed weights, so that later starts of the same model map them "
                 "instead of packing again (default: none)")
      ->type_name("DIR")
      ->group(group);
  app.add_option(
         "--device", args.device,
         "What computes: the processor (cpu), GPU N (cuda:N, or cuda for the first), or the "
         "first GPU that this build has kernels for, if there is one, else the processor")
      ->type_name("DEVICE")
      ->check(known_names("auto|cpu|cuda|cuda:N"))
      ->capture_default_str()
      ->group(machine_group);
  add_split(app, args, group);
  app.add_option("--threads", args.threads,
                 "Threads (default: as many physical cores as affinity and cgroup quota allow)")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->group(machine_group);
  add_count(app, "--block-size", args.block_size, "Tokens of one KV block", 1, 1024)->group(group);
  add_count(app, "--max-num-seqs", args.max_num_seqs, "Sequences that run at once", 1, 4096)
      ->group(machine_group);
  add_count(app, "--max-num-batched-tokens", args.max_num_batched_tokens,
            "Maximum number of tokens in a step", 1, 1 << 20)
      ->group(group);
  add_max_step(app, args, group);
  add_speculation(app, args, group);
  add_count(app, "--max-model-len", args.max_model_len,
            "Tokens of prompt and output together (default: the model's context length)", 1,
            kMaxInt)
      ->group(machine_group);
  add_count(app, "--kv-cache-memory-bytes", args.kv_cache_memory_bytes,
            "Memory of the KV cache (default: as much as the limits above need, but at most a "
            "quarter of the free memory, or all that a GPU has left)",
            1, std::numeric_limits<std::int64_t>::max())
      ->group(machine_group);
  app.add_option("--kv-offload-path", args.kv_offload_path,
                 "Folder for KV blocks that leave the prefix cache: a prompt that begins with them "
                 "reads them instead of computing, also after a restart (default: none)")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--kv-offloading-size", args.kv_offloading_size,
                 "GiB of the disk that --kv-offload-path may take")
      ->type_name("GIB")
      ->check(number(0, 1e6))
      ->group(group);
  app.add_option("--gpu-memory-utilization", args.gpu_memory_utilization,
                 "Share of this machine's memory (or the cgroup's limit, or the GPU's memory) that "
                 "weights, "
                 "KV cache and activations may use together")
      ->type_name("SHARE")
      ->check(number(0, 1, true))
      ->capture_default_str()
      ->group(machine_group);
  app.add_flag("--prefault", args.prefault, "Touch all memory at the start instead of on first use")
      ->group(group);
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", args.enable_prefix_caching,
               "Reuse the KV blocks of earlier prompts with the same beginning (default: on)")
      ->group(group);
  app.add_option("--max-pinned-share", args.max_pinned_share,
                 "Share of the KV cache that prefixes may be pinned in (POST /v1/prefixes), as far "
                 "as the longest sequence still fits beside it; 0: none")
      ->type_name("SHARE")
      ->check(number(0, 0.9))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill", args.enable_chunked_prefill,
               "Spread long prompts over steps (default: on)")
      ->group(group);
  app.add_flag("--jump-forward,!--no-jump-forward", args.jump_forward,
               "Compute several tokens per step where structured output allows only one text "
               "(default: on)")
      ->group(group);
  app.add_option("--scheduling-policy", args.scheduling_policy,
                 "Which waiting request starts first: the earliest arrival (fcfs), the lowest "
                 "priority, the fewest tokens, the earliest deadline, the user or key that was "
                 "served least, or the longest cached prompt")
      ->type_name("POLICY")
      ->check(known_names("fcfs|priority|shortest|deadline|fair|longest-prefix"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--batching", args.batching, "When requests may join a running batch")
      ->type_name("KIND")
      ->check(known_names("continuous|static|dynamic"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-batch-delay-ms", args.max_batch_delay_ms,
                 "How long --batching dynamic waits for a batch to fill")
      ->type_name("MS")
      ->check(number(0, 3.6e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--waiting-served-ratio", args.admission.waiting_served_ratio,
                 "Start waiting requests beside running ones only when so many wait for each that "
                 "runs, or after --max-waiting-tokens steps; 0: in any step")
      ->type_name("RATIO")
      ->check(number(0, kMaxWaitingServedRatio))
      ->capture_default_str()
      ->group(group);
  add_count(app, "--max-waiting-tokens", args.admission.max_waiting_tokens,
            "Steps without a start after which waiting requests start although they are fewer than "
            "--waiting-served-ratio asks for",
            1, 1 << 20)
      ->group(group);
  add_count(app, "--max-queued-requests", args.max_queued_requests,
            "Sequences that may wait, besides the running ones", 1, 1 << 20)
      ->group(group);
  app.add_option("--max-logprobs", args.max_logprobs,
                 "Alternatives that a request may ask for with logprobs")
      ->type_name("N")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str()
      ->group(group);
  app.add_option("--generation-config", args.generation_config,
                 "Sampling defaults; auto: the model's generation_config.json, vllm: none")
      ->type_name("SOURCE")
      ->check(known_names("auto|vllm"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", args.seed, "Seed of requests without a seed")
      ->type_name("N")
      ->capture_default_str()
      ->group(machine_group);
  app.add_option("--event-log", args.event_log,
                 "Record what the scheduler does in files FILE.000001 and so on, for quire replay "
                 "and quire explain. They contain prompts and outputs, as token ids")
      ->type_name("FILE")
      ->group(group);
  add_count(app, "--event-log-segment-bytes", args.event_log_segment_bytes,
            "Size at which the event log starts its next file", 1 << 20, std::int64_t{1} << 40)
      ->group(group);
  add_count(app, "--event-log-segments", args.event_log_segments,
            "Number of event log files to keep", 1, 1 << 20)
      ->group(group);
}

Result<std::unique_ptr<Engine>> start_engine(EngineArgs args,
                                             std::function<void(const StepRecord&)> stepped,
                                             EngineProfile* profile) {
  QUIRE_RETURN_IF_ERROR(make_models_local(args));
  ProgressBar bar("loading", "MB");
  auto engine = Engine::create(
      args, {.planned = [](const MemoryPlan& plan) { log_info("{}", plan.to_line()); },
             .loaded =
                 [&](std::uint64_t done, std::uint64_t total) {
                   bar.update(static_cast<double>(done) / 1e6, static_cast<double>(total) / 1e6,
                              "");
                 },
             .stepped = std::move(stepped),
             .profile = profile});
  bar.clear();
  return engine;
}

}  // namespace quire
