#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/random.h"
#include "core/satisfiable.h"
#include "engine/api.h"
#include "engine/assembly.h"
#include "engine/bad_words.h"
#include "engine/cache_scope.h"
#include "engine/chat_input.h"
#include "engine/constraints/constraint_compiler.h"
#include "engine/constraints/ensure_close.h"
#include "engine/constraints/running_constraints.h"
#include "engine/engine_core.h"
#include "engine/output_processor.h"
#include "engine/pin_registry.h"

namespace quire {
namespace {

// What guesses tokens; null where nothing does.
std::unique_ptr<Speculator> speculator(EngineParts& parts, const SteadyClock& clock) {
  if (!parts.speculation) return nullptr;
  const std::int64_t max_num_seqs = parts.scheduler.max_num_seqs;
  auto drafter =
      parts.draft_model != nullptr
          ? std::move(parts.draft_model)
          : make_lookup_drafter(*parts.speculation, max_num_seqs, parts.scheduler.max_model_len);
  return std::make_unique<Speculator>(std::move(drafter), parts.speculation->num_speculative_tokens,
                                      max_num_seqs, [&clock] { return clock.now(); });
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(EngineParts parts)
      : text_(std::move(parts.text)),
        info_(std::move(parts.info)),
        defaults_(std::move(parts.generation_defaults)),
        max_logprobs_(parts.max_logprobs),
        seed_(parts.seed),
        max_unfinished_(parts.scheduler.max_num_seqs + parts.scheduler.max_queued),
        compiler_(*text_.tokenizer, static_cast<std::size_t>(info_.vocab_size)),
        outputs_(
            *text_.tokenizer, [this](RequestId id) { core_.abort(id); },
            parts.profile == nullptr ? nullptr : &parts.profile->output,
            StepResultLimits{.max_num_seqs = parts.scheduler.max_num_seqs,
                             .max_num_batched_tokens = parts.scheduler.max_num_batched_tokens,
                             .max_logprobs = parts.max_logprobs,
                             .hidden_size = info_.hidden_size}),
        core_(parts.scheduler, std::move(parts.executor), outputs_,
              RunningConstraints(*text_.tokenizer, clock_, parts.jump_forward), clock_,
              std::move(parts.stepped), parts.profile == nullptr ? nullptr : &parts.profile->engine,
              std::move(parts.listener), std::move(parts.pacer), pins_, speculator(parts, clock_)) {
  }

  // Each of the two threads may call the other's object: both must end before either object does.
  ~Impl() {
    core_.stop();
    outputs_.stop();
  }

  Result<RequestId> submit(GenerateRequest request, OutputSink sink) {
    SamplingParams& params = request.params;
    QUIRE_RETURN_IF_ERROR(check(request));
    if (request.embed || request.pin) params = SamplingParams();
    if (request.pin) params.max_tokens = 1;  // the fewest
    QUIRE_ASSIGN_OR_RETURN(params.bad_words_token_ids,
                           bad_words_token_ids(*text_.tokenizer, params.bad_words));
    RequestConstraint constraint;
    if (params.structured_outputs != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(constraint, compiler_.use(*params.structured_outputs));
      constraint.close_within = close_within(request);
    }
    if (!request.reserved) QUIRE_RETURN_IF_ERROR(check_room(params.n));
    PinId pin = 0;
    if (request.pin) {
      QUIRE_ASSIGN_OR_RETURN(pin, begin_pin(request, sink));
    }
    const std::int64_t num_outputs = params.n;
    const RequestId id = next_id_.fetch_add(static_cast<RequestId>(params.num_ids()));
    if (!params.seed) params.seed = random_bits(seed_, id);
    auto shared = std::make_shared<const SamplingParams>(std::move(params));
    RequestSpeculation speculation = {.drafts = request.drafts};
    if (info_.speculation) {
      speculation.reports =
          std::make_shared<std::vector<SpeculationReport>>(static_cast<std::size_t>(num_outputs));
    }
    outputs_.add(id, request.prompt_token_ids, *shared, std::move(sink), constraint.work,
                 request.shown_special_tokens, speculation.reports);
    const Status status = or_status([&] {
      return core_.add({.request_id = id,
                        .prompt_token_ids = std::move(request.prompt_token_ids),
                        .sampling_params = std::move(shared),
                        .priority = request.priority,
                        .cache_scope = scope_of(request),
                        .user = std::move(request.user),
                        .deadline = request.deadline.value_or(kDefaultDeadline),
                        .pooling = request.embed ? info_.embedding.pooling : Pooling::kNone,
                        .external_id = std::move(request.external_id),
                        .pin = pin},
                       std::move(constraint), std::move(speculation));
    });
    if (!status.ok() && outputs_.remove(id)) {
      pins_.abandon(pin);
      if (status.code() == StatusCode::kResourceExhausted) count_refusal();
      return status;
    }
    if (request.reserved) num_reserved_ -= num_outputs;
    return id;  // also where its sink has been told of the engine's end
  }

  Status check(const GenerateRequest& request) const {
    if (request.embed) QUIRE_RETURN_IF_ERROR(info_.embedding.check());
    QUIRE_RETURN_IF_ERROR(check_prompt(request.prompt_token_ids, request.embed));
    if (request.pin) {
      return check_pin(*request.pin, request.prompt_token_ids.size(), info_.block_size);
    }
    if (request.embed) return {};
    const SamplingParams& params = request.params;
    QUIRE_RETURN_IF_ERROR(params.validate(info_.vocab_size, max_logprobs_));
    QUIRE_RETURN_IF_ERROR(check_drafts(request.drafts));
    QUIRE_RETURN_IF_ERROR(check_deadline(request.deadline));
    QUIRE_RETURN_IF_ERROR(prepare(params, {}));
    QUIRE_RETURN_IF_ERROR(check_close(request));
    if (params.allowed_token_ids.empty() && params.bad_words.empty()) return {};
    QUIRE_ASSIGN_OR_RETURN(const auto bad_words,
                           bad_words_token_ids(*text_.tokenizer, params.bad_words));
    return check_satisfiable(params, bad_words, text_.tokenizer->eos_ids(), info_.vocab_size);
  }

  // With ensure_close: how many tokens the output may have.
  std::optional<std::int64_t> close_within(const GenerateRequest& request) const {
    const SamplingParams& params = request.params;
    if (!params.ensure_close || params.structured_outputs == nullptr) return std::nullopt;
    return std::min<std::int64_t>(params.max_tokens,
                                  info_.max_model_len - std::ssize(request.prompt_token_ids));
  }

  Status check_close(const GenerateRequest& request) const {
    const auto most = close_within(request);
    if (!most) return {};
    if (!request.params.allowed_token_ids.empty()) {
      return Status::invalid_argument(
          "ensure_close: the tokens that end a text may not be among allowed_token_ids",
          "give one of them");
    }
    QUIRE_ASSIGN_OR_RETURN(const auto grammar,
                           compiler_.compile(*request.params.structured_outputs, {}));
    return check_closable(grammar, *most);
  }

  static Status check_deadline(const std::optional<Duration>& deadline) {
    constexpr Duration kMost = std::chrono::hours(24);
    if (!deadline || (*deadline >= Duration::zero() && *deadline <= kMost)) return {};
    return Status::invalid_argument("deadline_ms: expected 0 to 86400000, which is a day");
  }

  Status check_drafts(const std::optional<std::int32_t>& drafts) const {
    if (!drafts || *drafts == 0) return {};
    if (!info_.speculation) {
      return Status::invalid_argument(
          fmt::format("speculation: {}: nothing guesses tokens here", *drafts),
          "use \"auto\" or \"off\", or start with --speculative-config");
    }
    const std::int32_t most = info_.speculation->num_speculative_tokens;
    if (*drafts > 0 && *drafts <= most) return {};
    return Status::invalid_argument(
        fmt::format("speculation: {}: expected \"off\", \"auto\" or 1 to {}", *drafts, most),
        "num_speculative_tokens of --speculative-config is the most");
  }

  Status prepare(const SamplingParams& params, const std::function<bool()>& cancelled) const {
    if (params.structured_outputs == nullptr) return {};
    return compiler_.compile(*params.structured_outputs, cancelled).status();
  }
  bool is_prepared(const SamplingParams& params) const {
    return params.structured_outputs == nullptr || compiler_.is_kept(*params.structured_outputs);
  }

  Status reserve(std::int64_t num_outputs) {
    const std::lock_guard lock(reserve_mutex_);
    QUIRE_RETURN_IF_ERROR(check_room(num_outputs));
    num_reserved_ += num_outputs;
    return {};
  }
  void release(std::int64_t num_outputs) { num_reserved_ -= num_outputs; }
  void abort(RequestId id) {
    const std::int32_t count = outputs_.num_outputs(id);
    for (std::int32_t i = 0; i < count; ++i) core_.abort(id + static_cast<RequestId>(i));
  }
  void reset_prefix_cache() { core_.reset_prefix_cache(); }
  bool renew_pin(const GenerateRequest& request) {
    return pins_.renew(*request.pin, tokens_to_pin(request), scope_of(request), clock_.now());
  }
  Status unpin(std::string_view owner, std::string_view name) {
    QUIRE_ASSIGN_OR_RETURN(const PinId pin, pins_.remove(owner, name));
    core_.unpin(pin);
    return {};
  }
  void list_pins(std::string owner, std::function<void(std::vector<PinState>)> look) {
    core_.inspect(
        [this, owner = std::move(owner), look = std::move(look)](const EngineState* state) {
          const auto pins = state == nullptr ? std::span<const PinnedPrefix>() : state->pins();
          look(pins_.list(owner, pins, info_.block_size));
        });
  }
  Status update_weights(const std::vector<TensorInfo>& tensors) {
    return core_.update_weights(tensors);
  }
  Result<std::vector<TextSegment>> render_chat(const Conversation& conversation) const {
    if (!text_.chat_template) {
      return Status::config(fmt::format("the model {} has no chat template", info_.model_name),
                            "give a plain prompt, or start with --chat-template FILE");
    }
    return render_conversation(*text_.chat_template, conversation, chat_input(*text_.tokenizer));
  }

  Result<std::vector<TokenId>> encode_chat(const Conversation& conversation,
                                           bool add_special_tokens,
                                           const EncodeLimits& limits) const {
    QUIRE_ASSIGN_OR_RETURN(const auto segments, render_chat(conversation));
    return text_.tokenizer->encode(std::span<const TextSegment>(segments), add_special_tokens,
                                   limits);
  }

  std::string_view chat_template() const {
    return text_.chat_template ? std::string_view(text_.chat_template->source()) : "";
  }
  const Tokenizer& tokenizer() const { return *text_.tokenizer; }
  const EngineInfo& info() const { return info_; }
  const GenerationDefaults& defaults() const { return defaults_; }
  EngineHeartbeat heartbeat() const { return core_.heartbeat(); }
  EngineStats observe() const {
    EngineStats stats = core_.stats();
    stats.rejections[static_cast<std::size_t>(RejectCause::kQueueFull)].count +=
        num_refused_.load(std::memory_order_relaxed);
    return stats;
  }
  void inspect(std::function<void(const EngineState*)> look) { core_.inspect(std::move(look)); }
  Instant now() const { return clock_.now(); }

 private:
  static CacheScope scope_of(const GenerateRequest& request) {
    return cache_scope_of(request.cache_owner, request.cache_salt);
  }

  // Full blocks alone: what comes after them is not pinned.
  std::span<const TokenId> tokens_to_pin(const GenerateRequest& request) const {
    const auto size = static_cast<std::size_t>(info_.block_size);
    const std::span prompt(request.prompt_token_ids);
    return prompt.first(prompt.size() / size * size);
  }

  // Whatever becomes of it, the name is free for another once the sink is told.
  Result<PinId> begin_pin(GenerateRequest& request, OutputSink& sink) {
    const auto tokens = tokens_to_pin(request);
    QUIRE_ASSIGN_OR_RETURN(const PinId pin, pins_.begin(*request.pin, tokens, scope_of(request)));
    request.prompt_token_ids.resize(tokens.size());
    sink = [this, pin, told = std::move(sink)](const RequestOutput& output) {
      if (output.request_finished) pins_.abandon(pin);
      told(output);
    };
    return pin;
  }

  Status check_room(std::int64_t num_outputs) {
    const std::int64_t taken = outputs_.num_unfinished() + num_reserved_;
    if (taken + num_outputs <= max_unfinished_) return {};
    count_refusal();
    return Status::resource_exhausted(fmt::format("{} requests run or wait already", taken),
                                      "try again later");
  }

  void count_refusal() { num_refused_.fetch_add(1, std::memory_order_relaxed); }

  Status check_prompt(const std::vector<TokenId>& prompt, bool embed) const {
    if (prompt.empty()) {
      return Status::invalid_argument("the prompt has no tokens", "give a prompt of some text");
    }
    const std::int64_t most = embed ? info_.max_model_len : info_.max_model_len - 1;
    if (std::ssize(prompt) > most) {
      return Status::invalid_argument(
          fmt::format("the prompt has {} tokens; at most {} fit with --max-model-len {}",
                      prompt.size(), most, info_.max_model_len),
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
  GenerationDefaults defaults_;
  std::int64_t max_logprobs_;
  std::uint64_t seed_;
  std::int64_t max_unfinished_;
  std::atomic<RequestId> next_id_ = 1;
  std::mutex reserve_mutex_;
  std::atomic<std::int64_t> num_reserved_ = 0;  // outputs whose requests are still to come
  std::atomic<std::int64_t> num_refused_ = 0;   // for the queue is full, before the scheduler hears
  mutable ConstraintCompiler compiler_;
  PinRegistry pins_;
  OutputProcessor outputs_;
  EngineCore core_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<Engine>> assemble_engine(EngineParts parts) {
  if (parts.speculation && parts.speculation->computes() && parts.draft_model == nullptr) {
    return Status::config("--speculative-config: a simulated engine computes no guesses",
                          "use method \"ngram\" or \"suffix\"");
  }
  return or_status([&]() -> Result<std::unique_ptr<Engine>> {
    return std::unique_ptr<Engine>(new Engine(std::make_unique<Engine::Impl>(std::move(parts))));
  });
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<RequestId> Engine::submit(GenerateRequest request, OutputSink sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
Status Engine::check(const GenerateRequest& request) const { return impl_->check(request); }
Status Engine::prepare(const SamplingParams& params, const std::function<bool()>& cancelled) const {
  return impl_->prepare(params, cancelled);
}
bool Engine::is_prepared(const SamplingParams& params) const { return impl_->is_prepared(params); }
Status Engine::reserve(std::int64_t num_outputs) { return impl_->reserve(num_outputs); }
void Engine::release(std::int64_t num_outputs) { impl_->release(num_outputs); }
void Engine::abort(RequestId request_id) { impl_->abort(request_id); }
void Engine::reset_prefix_cache() { impl_->reset_prefix_cache(); }
bool Engine::renew_pin(const GenerateRequest& request) { return impl_->renew_pin(request); }
Status Engine::unpin(std::string_view owner, std::string_view name) {
  return impl_->unpin(owner, name);
}
void Engine::list_pins(std::string owner, std::function<void(std::vector<PinState>)> look) {
  impl_->list_pins(std::move(owner), std::move(look));
}
Status Engine::update_weights(const std::vector<TensorInfo>& tensors) {
  return impl_->update_weights(tensors);
}
const SamplingParams& Engine::default_sampling_params() const { return impl_->defaults().params; }
std::span<const std::string> Engine::generation_config_fields() const {
  return impl_->defaults().fields;
}
Result<std::vector<TokenId>> Engine::encode_text(std::string_view text) const {
  return impl_->tokenizer().encode(text, {.add_special_tokens = true, .parse_special = true});
}
Result<std::vector<TokenId>> Engine::encode_chat(const Conversation& conversation,
                                                 bool add_special_tokens,
                                                 const EncodeLimits& limits) const {
  return impl_->encode_chat(conversation, add_special_tokens, limits);
}
Result<std::string> Engine::render_chat(const Conversation& conversation) const {
  QUIRE_ASSIGN_OR_RETURN(const auto segments, impl_->render_chat(conversation));
  return join(segments);
}
std::string_view Engine::chat_template() const { return impl_->chat_template(); }
const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer(); }
const EngineInfo& Engine::info() const { return impl_->info(); }
EngineStats Engine::observe() const { return impl_->observe(); }
EngineHeartbeat Engine::heartbeat() const { return impl_->heartbeat(); }
void Engine::inspect(std::function<void(const EngineState*)> look) {
  impl_->inspect(std::move(look));
}
Instant Engine::now() const { return impl_->now(); }

}  // namespace quire
