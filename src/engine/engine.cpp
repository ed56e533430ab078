#include <atomic>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "engine/api.h"
#include "engine/engine_core.h"
#include "engine/engine_sizing.h"
#include "engine/model_bundle.h"
#include "engine/output_processor.h"
#include "exec/model_runner.h"
#include "kernels/op_table.h"
#include "models/decoder_model.h"

namespace quire {
namespace {

// Owns what a step needs besides the model runner: threads and weights.
class InProcessExecutor final : public Executor {
 public:
  InProcessExecutor(std::unique_ptr<ThreadPool> pool, std::unique_ptr<Model> model,
                    std::unique_ptr<ModelRunner> runner)
      : pool_(std::move(pool)), model_(std::move(model)), runner_(std::move(runner)) {}

  Result<ModelRunnerOutput> execute(const SchedulerOutput& step) override {
    return runner_->execute(step);
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
};

}  // namespace

class Engine::Impl {
 public:
  Impl(TextBundle text, EngineInfo info, const SchedulerConfig& config, std::uint64_t seed,
       std::unique_ptr<Executor> executor)
      : text_(std::move(text)),
        info_(std::move(info)),
        seed_(seed),
        outputs_(*text_.tokenizer, [this](RequestId id) { core_.abort(id); }),
        core_(config, std::move(executor), outputs_, clock_) {}

  // Each of the two threads may call the other's object: both must end before either object does.
  ~Impl() {
    core_.stop();
    outputs_.stop();
  }

  Result<RequestId> submit(GenerateRequest request, OutputSink sink) {
    QUIRE_RETURN_IF_ERROR(check_prompt(request.prompt_token_ids));
    QUIRE_RETURN_IF_ERROR(request.params.validate(info_.vocab_size));
    const RequestId id = next_id_.fetch_add(1);
    if (!request.params.seed) request.params.seed = random_bits(seed_, id);
    auto params = std::make_shared<const SamplingParams>(std::move(request.params));
    outputs_.add(id, request.prompt_token_ids, *params, std::move(sink));
    const Status status = core_.add({.request_id = id,
                                     .prompt_token_ids = std::move(request.prompt_token_ids),
                                     .sampling_params = std::move(params)});
    if (!status.ok()) {
      outputs_.remove(id);
      return status;
    }
    return id;
  }

  void abort(RequestId id) { core_.abort(id); }

  Result<std::vector<TokenId>> encode_chat(json::array messages) const {
    if (!text_.chat_template) {
      return Status::config(fmt::format("the model {} has no chat template", info_.model_name),
                            "give a plain prompt");
    }
    const Tokenizer& tokenizer = *text_.tokenizer;
    ChatTemplateInput input;
    input.messages = std::move(messages);
    input.add_generation_prompt = true;
    if (const auto bos = tokenizer.bos_id()) {
      input.special_tokens.emplace_back("bos_token", tokenizer.token_text(*bos));
    }
    if (!tokenizer.eos_ids().empty()) {
      input.special_tokens.emplace_back("eos_token", tokenizer.token_text(tokenizer.eos_ids()[0]));
    }
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &input.local_time);
    QUIRE_ASSIGN_OR_RETURN(const auto segments, text_.chat_template->render(input));
    return tokenizer.encode(std::span<const TextSegment>(segments), /*add_special_tokens=*/false);
  }

  const Tokenizer& tokenizer() const { return *text_.tokenizer; }
  const EngineInfo& info() const { return info_; }
  SchedulerStats observe() const { return core_.stats(); }
  Instant now() const { return clock_.now(); }

 private:
  Status check_prompt(const std::vector<TokenId>& prompt) const {
    if (prompt.empty()) {
      return Status::invalid_argument("the prompt has no tokens", "give a prompt of some text");
    }
    if (static_cast<std::int64_t>(prompt.size()) >= info_.max_model_len) {
      return Status::invalid_argument(
          fmt::format("the prompt has {} tokens; at most {} fit with --max-model-len {}",
                      prompt.size(), info_.max_model_len - 1, info_.max_model_len),
          "shorten the prompt or raise --max-model-len");
    }
    for (const TokenId token : prompt) {
      if (token < 0 || token >= info_.vocab_size) {
        return Status::invalid_argument(
            fmt::format("the prompt has token id {}; ids of this model are 0 to {}", token,
                        info_.vocab_size - 1));
      }
    }
    return {};
  }

  SteadyClock clock_;
  TextBundle text_;
  EngineInfo info_;
  std::uint64_t seed_;
  std::atomic<RequestId> next_id_ = 1;
  OutputProcessor outputs_;
  EngineCore core_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<Engine>> Engine::create(const EngineArgs& args, const ProgressFn& progress) {
  QUIRE_ASSIGN_OR_RETURN(const IsaLevel level, choose_level());
  QUIRE_ASSIGN_OR_RETURN(ModelBundle bundle, open_model(args.model, args.tokenizer));
  const DecoderSpec& spec = bundle.spec;
  if (static_cast<std::int64_t>(bundle.text.tokenizer->vocab_size()) > spec.vocab_size) {
    return Status::bad_model(
        fmt::format("{}: the tokenizer has {} tokens, the model {}", bundle.name,
                    bundle.text.tokenizer->vocab_size(), spec.vocab_size),
        "model and tokenizer do not belong together");
  }
  QUIRE_ASSIGN_OR_RETURN(const EngineSizes sizes,
                         size_engine(args, spec, *bundle.weights, available_memory_bytes()));

  auto pool = std::make_unique<ThreadPool>(args.threads > 0 ? args.threads : default_num_threads());
  QUIRE_ASSIGN_OR_RETURN(auto model,
                         Model::load(spec, *bundle.weights, sizes.max_model_len, *pool, progress));
  bundle.weights.reset();  // packed: the mapping is not needed any more
  QUIRE_ASSIGN_OR_RETURN(auto runner,
                         ModelRunner::create(*model, *pool, op_table(level), sizes.runner));

  const auto& runner_config = sizes.runner;
  EngineInfo info = {
      .model_name = bundle.name,
      .architecture = spec.architecture,
      .isa_level = std::string(isa_level_name(level)),
      .activation =
          runner_config.activation_mode == ActivationMode::kInt8 ? "int8 groups" : "float32",
      .kv_cache_dtype = std::string(dtype_name(runner_config.kv_cache_dtype)),
      .threads = pool->num_threads(),
      .vocab_size = spec.vocab_size,
      .max_model_len = sizes.max_model_len,
      .block_size = runner_config.block_size,
      .num_blocks = static_cast<std::int32_t>(runner_config.num_blocks),
      .weight_bytes = model->weight_bytes(),
      .kv_cache_bytes = runner->kv_cache_bytes(),
      .kv_bytes_per_token = static_cast<std::uint64_t>(spec.kv_elements_per_token()) *
                            dtype_bytes(runner_config.kv_cache_dtype),
      .activation_bytes = runner->activation_bytes(),
  };
  SchedulerConfig config;
  config.max_num_seqs = args.max_num_seqs;
  config.max_num_batched_tokens = args.max_num_batched_tokens;
  config.max_model_len = sizes.max_model_len;
  config.block_size = args.block_size;
  config.num_blocks = info.num_blocks;
  const auto eos_ids = bundle.text.tokenizer->eos_ids();
  config.eos_token_ids.assign(eos_ids.begin(), eos_ids.end());
  QUIRE_RETURN_IF_ERROR(config.validate());

  auto executor =
      std::make_unique<InProcessExecutor>(std::move(pool), std::move(model), std::move(runner));
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(
      std::move(bundle.text), std::move(info), config, args.seed, std::move(executor))));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<RequestId> Engine::submit(GenerateRequest request, OutputSink sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Engine::abort(RequestId request_id) { impl_->abort(request_id); }

std::vector<TokenId> Engine::encode_text(std::string_view text) const {
  return impl_->tokenizer().encode(text, {.add_special_tokens = true, .parse_special = true});
}
Result<std::vector<TokenId>> Engine::encode_chat(json::array messages) const {
  return impl_->encode_chat(std::move(messages));
}

const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer(); }
const EngineInfo& Engine::info() const { return impl_->info(); }
SchedulerStats Engine::observe() const { return impl_->observe(); }
Instant Engine::now() const { return impl_->now(); }

}  // namespace quire
