#include "engine_handle.h"

#include <future>
#include <limits>
#include <mutex>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/batch_runner.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/thread.h"
#include "engine_settings.h"
#include "serve/protocols/queue_fields.h"
#include "serve/protocols/sampling_fields.h"
#include "serve/why/request_story.h"

namespace quire::python {

namespace nb = nanobind;

namespace {

Result<QueueFields> read_queue(std::string_view text) {
  if (text.empty()) return QueueFields();
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "prompt"));
  if (!value.is_object()) return Status::invalid_argument("prompt: expected an object");
  return read_queue_fields(JsonReader(value.get_object(), "prompt", StatusCode::kInvalidArgument));
}

Result<EngineToServe> make_parts(const std::string& settings,
                                 const std::shared_ptr<StepRing>& steps) {
  std::vector<std::string> notes;
  auto read = read_engine_settings(settings, notes);
  for (const std::string& note : notes) log_info("{}", note);
  QUIRE_RETURN_IF_ERROR(read.status());
  EngineToServe parts = {.engine = nullptr,
                         .steps = std::make_shared<StepWatch>(),
                         .max_logprobs = read->args.max_logprobs};
  if (!read->args.model.empty()) parts.other_names.push_back(read->args.model);
  const auto stepped = [steps, watch = parts.steps](const StepRecord& step) {
    steps->add(step);
    watch->record(step);
  };
  QUIRE_ASSIGN_OR_RETURN(parts.engine, start_engine(*std::move(read), stepped));
  return parts;
}

}  // namespace

Result<NativeParams> NativeParams::read(std::string_view text, bool to_the_end) {
  NativeParams native;
  native.to_the_end = to_the_end;
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "SamplingParams"));
  if (!value.is_object()) return Status::invalid_argument("SamplingParams: expected an object");
  const JsonReader fields(value.get_object(), "SamplingParams", StatusCode::kInvalidArgument);
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(fields, native.params));
  // The vocabulary and the engine's own limits are known when a request is submitted.
  QUIRE_RETURN_IF_ERROR(native.params.validate(std::numeric_limits<TokenId>::max(),
                                               std::numeric_limits<std::int64_t>::max()));
  return native;
}

EngineHandle::EngineHandle(EngineToServe parts, std::shared_ptr<const StepRing> steps)
    : process_(::getpid()),
      steps_(std::move(steps)),
      parts_(std::move(parts)),
      max_num_seqs_(parts_.engine->info().max_num_seqs),
      model_name_(parts_.engine->info().model_name) {}

std::unique_ptr<EngineHandle> EngineHandle::create(const std::string& settings) {
  const auto steps = std::make_shared<StepRing>();
  Result<EngineToServe> parts = closed_error();
  {
    const WithoutGil released;
    parts = make_parts(settings, steps);
  }
  return std::unique_ptr<EngineHandle>(new EngineHandle(value_of(std::move(parts)), steps));
}

EngineHandle::~EngineHandle() {
  if (::getpid() != process_) {
    leak(std::move(parts_.engine));
    return;
  }
  const WithoutGil released;
  std::shared_ptr<Engine> engine = take_engine();
  if (engine == nullptr || !LogitsCallable::is_calling()) return;
  // Garbage that is collected within a processor: the engine's own thread cannot wait for itself.
  auto* const last = leak(std::move(engine));
  auto thread = start_thread(
      "quire-close", [last] { const std::unique_ptr<std::shared_ptr<Engine>> ended(last); });
  if (thread.ok()) thread->detach();
}

void EngineHandle::close() {
  if (::getpid() != process_) return;
  check(check_caller());
  const WithoutGil released;
  take_engine().reset();
}

std::shared_ptr<Engine> EngineHandle::take_engine() {
  const std::unique_lock lock(mutex_);
  return std::move(parts_.engine);
}

bool EngineHandle::closed() const {
  if (::getpid() != process_) return false;  // the lock may be another thread's for ever
  const WithoutGil released;
  const std::shared_lock lock(mutex_);
  return parts_.engine == nullptr;
}

Status EngineHandle::closed_error() {
  return Status::unavailable("the engine is closed", "load the model again: LLM(...)");
}

Status EngineHandle::check_caller() const {
  if (LogitsCallable::is_calling()) {
    return Status::unavailable("a logits processor calls the engine, which waits for it",
                               "call it from another thread, and do not wait");
  }
  if (::getpid() == process_) return {};
  return Status::unavailable(
      fmt::format("the engine was loaded in process {}, and this one is a fork of it: an engine's "
                  "threads do not follow a fork",
                  process_),
      "load the model in this process, or start processes with "
      "multiprocessing.set_start_method(\"spawn\")");
}

RequestId EngineHandle::submit(Inbox& inbox, std::uint64_t key, std::vector<TokenId> prompt,
                               const NativeParams& params, const std::string& queue_fields,
                               bool embed, std::string external_id, nb::object logits_processor) {
  std::shared_ptr<LogitsProcessor> processor = processor_of(std::move(logits_processor));
  return run([&](Engine& engine) -> Result<RequestId> {
    const Instant received = engine.now();
    QUIRE_ASSIGN_OR_RETURN(QueueFields queue, read_queue(queue_fields));
    GenerateRequest request = {.prompt_token_ids = std::move(prompt),
                               .params = params.params,
                               .priority = queue.priority,
                               .cache_salt = std::move(queue.cache_salt),
                               .user = std::move(queue.user),
                               .deadline = queue.deadline,
                               .embed = embed,
                               .external_id = external_id};
    request.params.logits_processor = processor;
    if (params.to_the_end) {
      default_max_tokens(request.params, std::ssize(request.prompt_token_ids),
                         engine.info().max_model_len);
    }
    const auto entry =
        directory_->begin({.external_id = std::move(external_id)}, request, received, engine.now());
    // The engine outlives its sinks.
    auto sink = [&engine, entry, directory = directory_,
                 put = inbox.sink(key)](const RequestOutput& piece) {
      if (piece.finished) directory->finished(entry, piece, engine.now());
      put(piece);
    };
    auto id = engine.submit(std::move(request), std::move(sink));
    if (id.ok()) {
      directory_->submitted(entry, *id);
    } else {
      directory_->refused(entry);
    }
    return id;
  });
}

std::shared_ptr<LogitsProcessor> EngineHandle::processor_of(nb::object call) {
  if (call.is_none()) return nullptr;
  const auto vocab_size = run([](Engine& engine) -> Result<std::int64_t> {
    if (engine.info().plan.num_blocks != 0) return engine.info().vocab_size;
    return Status::unimplemented("logits_processors: tokens are made up here, from no logits",
                                 "leave simulate_step_ms out");
  });
  if (!logits_row_) logits_row_ = std::make_shared<LogitsRow>(static_cast<std::size_t>(vocab_size));
  return std::make_shared<LogitsCallable>(std::move(call), logits_row_);
}

void EngineHandle::abort(RequestId request_id) {
  if (::getpid() != process_) return;
  const WithoutGil released;
  const std::shared_lock lock(mutex_);
  if (parts_.engine) parts_.engine->abort(request_id);
}

std::string EngineHandle::why(const std::string& external_id) {
  return run([&](Engine& engine) -> Result<std::string> {
    std::vector<OutputStory> stories = directory_->find(external_id);
    if (stories.empty()) {
      return Status::not_found(
          fmt::format("no request \"{}\" among those that run and the last {} that ended",
                      printable(external_id, 60), RequestDirectory::kMaxFinished),
          "RequestOutput.request_id is what it is called");
    }
    // Those that go on are looked up on the engine's thread, between two steps.
    std::promise<void> looked;
    const auto look = [&](const EngineState* state) {
      const Instant now = engine.now();
      for (OutputStory& story : stories) {
        if (state == nullptr || !story.finish_reason.empty()) continue;
        const auto output = state->find(story.output_id, now);
        if (!output) continue;  // it has ended since; what is known of it stays
        story.arrival = output->arrival;
        story.num_output_tokens = output->num_tokens - output->num_prompt_tokens;
        story.num_preemptions = output->num_preemptions;
        story.timeline = state->timeline(story.output_id);
      }
      looked.set_value();
    };
    engine.inspect(look);
    looked.get_future().wait();
    json::array outputs;
    const auto names = [this](RequestId output) { return directory_->name(output); };
    // Everything in this process is the same user's.
    PrefixNames prefixes{.others = names, .tell_cached = true};
    prefixes.text = [&engine](TokenId token) {
      return engine.tokenizer().decode({&token, 1}, /*skip_special_tokens=*/false);
    };
    for (const OutputStory& story : stories) {
      prefixes.salted = story.salted;
      json::object told = story_json(story, names, prefixes, engine.now());
      told["text"] = story_text(told);
      outputs.push_back(std::move(told));
    }
    return json::serialize(outputs);
  });
}

std::string EngineHandle::state(std::size_t most) {
  struct Seen {
    EngineStats stats;
    std::vector<OutputState> running;
    std::vector<OutputState> waiting;
    Instant now{};
  };
  return run([&](Engine& engine) -> Result<std::string> {
    std::promise<std::optional<Seen>> promise;
    engine.inspect([&](const EngineState* state) {
      std::optional<Seen> seen;
      if (state != nullptr) {
        const Instant now = engine.now();
        seen = Seen{state->stats(), state->running(most, now), state->waiting(most, now), now};
      }
      promise.set_value(std::move(seen));
    });
    const std::optional<Seen> seen = promise.get_future().get();
    if (!seen) return engine.heartbeat().failure;
    json::array running;
    json::array waiting;
    for (const OutputState& each : seen->running) {
      running.push_back(output_state_json(each, seen->now));
    }
    for (const OutputState& each : seen->waiting) {
      waiting.push_back(output_state_json(each, seen->now));
    }
    return json::serialize(json::object{{"stats", stats_json(seen->stats)},
                                        {"running", std::move(running)},
                                        {"waiting", std::move(waiting)}});
  });
}

EngineToServe EngineHandle::to_serve() {
  return run([this](Engine& /*engine*/) -> Result<EngineToServe> { return parts_; });
}

std::string EngineHandle::timeline(bool as_page) const {
  check(check_caller());
  const WithoutGil released;
  return as_page ? steps_->to_html(max_num_seqs_, model_name_)
                 : json::serialize(steps_->to_json(max_num_seqs_));
}

json::object output_state_json(const OutputState& output, Instant now) {
  json::object shown = {{"request_id", output.external_id},
                        {"index", output.index},
                        {"priority", output.priority},
                        {"num_prompt_tokens", output.num_prompt_tokens},
                        {"num_cached_tokens", output.num_cached_tokens},
                        {"num_computed_tokens", output.num_computed_tokens},
                        {"num_tokens", output.num_tokens},
                        {"max_num_tokens", output.max_num_tokens},
                        {"num_preemptions", output.num_preemptions},
                        {"num_blocks", output.num_blocks},
                        {"age_s", to_seconds(now - output.arrival)}};
  shown["waits_for"] =
      output.wait ? json::value(wait_cause_name(*output.wait)) : json::value(nullptr);
  return shown;
}

json::object stats_json(const EngineStats& stats) {
  json::object rejections;
  for (const RejectionCount& each : stats.rejections) rejections[each.cause] = each.count;
  return {{"num_waiting", stats.num_waiting},
          {"num_running", stats.num_running},
          {"blocks_total", stats.blocks_total},
          {"blocks_free", stats.blocks_free},
          {"blocks_used", stats.blocks_used},
          {"blocks_leaked", stats.blocks_leaked},
          {"blocks_cached", stats.blocks_cached},
          {"blocks_shared", stats.blocks_shared},
          {"blocks_saved", stats.blocks_saved},
          {"num_steps", stats.num_steps},
          {"num_added", stats.num_added},
          {"num_finished", stats.num_finished},
          {"num_aborted", stats.num_aborted},
          {"rejections", std::move(rejections)},
          {"num_preemptions", stats.num_preemptions},
          {"num_preemptions_by_swap", stats.num_preemptions_by_swap},
          {"num_pins", stats.num_pins},
          {"num_forks", stats.num_forks},
          {"prompt_tokens_added", stats.prompt_tokens_added},
          {"prompt_tokens_computed", stats.prompt_tokens_computed},
          {"prompt_tokens_cached", stats.prompt_tokens_cached},
          {"prompt_tokens_dropped", stats.prompt_tokens_dropped},
          {"prompt_tokens_pending", stats.prompt_tokens_pending},
          {"output_tokens_sampled", stats.output_tokens_sampled},
          {"output_tokens_computed", stats.output_tokens_computed},
          {"tokens_recomputed", stats.tokens_recomputed},
          {"tokens_discarded", stats.tokens_discarded},
          {"prefix_cache_queries", stats.prefix_cache_queries},
          {"prefix_cache_hits", stats.prefix_cache_hits},
          {"step_time_charged_ns", stats.step_time_charged_ns}};
}

json::object info_json(const EngineInfo& info) {
  const Status embedding = info.embedding.check();
  return {
      {"model", info.model_name},
      {"architecture", info.architecture},
      {"device", info.device},
      {"isa_level", info.isa_level},
      {"activation", info.activation},
      {"kv_cache_dtype", info.kv_cache_dtype},
      {"quantization", info.quantization},
      {"threads", info.threads},
      {"vocab_size", info.vocab_size},
      {"hidden_size", info.hidden_size},
      {"max_model_len", info.max_model_len},
      {"block_size", info.block_size},
      {"num_blocks", info.num_blocks},
      {"max_num_seqs", info.max_num_seqs},
      {"max_num_batched_tokens", info.max_num_batched_tokens},
      {"weight_bytes", info.weight_bytes},
      {"kv_cache_bytes", info.kv_cache_bytes},
      {"kv_bytes_per_token", info.kv_bytes_per_token},
      {"chat_template", info.model.chat_template},
      {"normalize_embeddings", info.embedding.normalize},
      {"embedding_error", embedding.ok() ? json::value(nullptr) : json::value(embedding.message())},
      // An engine that makes up its tokens has none.
      {"plan", info.plan.num_blocks == 0 ? json::object() : info.plan.to_json()}};
}

}  // namespace quire::python
