// `quire generate`: one prompt streamed to stdout, or a batch from a file.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/batch_runner.h"
#include "apps/commands.h"
#include "apps/constraint_flags.h"
#include "apps/engine_flags.h"
#include "apps/generation_record.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/jsonl.h"
#include "apps/output_file.h"
#include "apps/sampling_flags.h"
#include "engine/engine_args.h"
#include "serve/protocols/conversation_defaults.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

struct GenerateFlags {
  EngineArgs engine;
  std::optional<std::string> prompt;
  std::optional<std::string> chat;
  std::string system;
  std::string input;
  std::string output = "-";
  bool json = false;
  bool resume = false;
  bool unordered = false;
  bool schema = false;
  json::object sampling;  // the fields that flags gave
};

// The defaults with what the flags say: --chat samples as `quire chat` does.
Result<SamplingParams> sampling_params(const Engine& engine, const GenerateFlags& flags) {
  SamplingParams params =
      flags.chat ? conversation_defaults(engine).params : engine.default_sampling_params();
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(
      JsonReader(flags.sampling, "command line", StatusCode::kInvalidArgument), params));
  return params;
}

// The one request of a command line, followed until it ends.
class SingleRun {
 public:
  // Streams the text to `output` as it comes, unless that is null.
  explicit SingleRun(OutputFile* output) : output_(output) {}

  void add(const RequestOutput& piece) {
    const std::lock_guard lock(mutex_);
    generation_.add(piece);
    if (output_ != nullptr && write_status_.ok() && !piece.text.empty()) {
      write_status_ = output_->write_text(piece.text);
    }
    if (piece.request_finished) done_ = true;
    changed_.notify_one();
  }

  // Until the request has ended. A reader that has gone away ends it.
  GatheredOutputs wait(Engine& engine, RequestId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ || !write_status_.ok(); });
    if (!done_) {
      engine.abort(id);
      changed_.wait(lock, [&] { return done_; });
    }
    return std::move(generation_);
  }

  Status write_status() const { return write_status_; }

 private:
  OutputFile* output_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Status write_status_;
  GatheredOutputs generation_;
};

Result<std::vector<TokenId>> encode_prompt(const Engine& engine, const GenerateFlags& flags) {
  if (!flags.chat) return engine.encode_text(*flags.prompt);
  Conversation conversation;
  if (!flags.system.empty()) {
    conversation.messages.push_back({{"role", "system"}, {"content", flags.system}});
  }
  conversation.messages.push_back({{"role", "user"}, {"content", *flags.chat}});
  return engine.encode_chat(conversation);
}

std::string json_line(const GatheredOutputs& generation, const SamplingParams& params) {
  const RequestTimings timings = request_timings(generation.last);
  json::object record = generation_record(1, generation, params);
  record["timings"] = {
      {"ttft_s", timings.ttft_s}, {"tpot_s", timings.tpot_s}, {"e2e_s", timings.e2e_s}};
  return json::serialize(record) + "\n";
}

void print_summary(const GatheredOutputs& generation) {
  const RequestOutput& last = generation.last;
  const RequestTimings timings = request_timings(last);
  const std::string_view reason =
      last.finish_reason ? finish_reason_name(*last.finish_reason) : "error";
  fmt::print(stderr,
             "\n[{} prompt tokens, {} new; first after {:.0f} ms, then {:.1f} tokens/s; {}]\n",
             last.num_prompt_tokens, generation.num_output_tokens(), timings.ttft_s * 1e3,
             timings.tpot_s > 0 ? 1.0 / timings.tpot_s : 0.0, reason);
}

// The outputs of n > 1 under headings, for they cannot stream side by side.
std::string numbered_texts(const GatheredOutputs& generation) {
  std::string text;
  for (std::size_t i = 0; i < generation.outputs.size(); ++i) {
    text += fmt::format("[{}] {}\n", i, generation.outputs[i].text);
  }
  return text;
}

Status run_single(Engine& engine, const GenerateFlags& flags, OutputFile& output,
                  InterruptWatcher& interrupt) {
  QUIRE_ASSIGN_OR_RETURN(SamplingParams params, sampling_params(engine, flags));
  QUIRE_ASSIGN_OR_RETURN(auto prompt, encode_prompt(engine, flags));
  if (!flags.sampling.contains("max_tokens")) {
    default_max_tokens(params, std::ssize(prompt), engine.info().max_model_len);
  }
  const bool stream = !flags.json && params.n == 1;  // a beam search has one piece
  SingleRun run(stream ? &output : nullptr);
  QUIRE_ASSIGN_OR_RETURN(const RequestId id,
                         engine.submit({.prompt_token_ids = std::move(prompt), .params = params},
                                       [&](const RequestOutput& piece) { run.add(piece); }));
  QUIRE_RETURN_IF_ERROR(interrupt.watch([&engine, id] { engine.abort(id); }));
  const GatheredOutputs generation = run.wait(engine, id);
  QUIRE_RETURN_IF_ERROR(run.write_status());
  QUIRE_RETURN_IF_ERROR(output.write_text(flags.json ? json_line(generation, params)
                                          : stream   ? "\n"
                                                     : numbered_texts(generation)));
  QUIRE_RETURN_IF_ERROR(output.close());
  if (!flags.json && ::isatty(STDERR_FILENO) != 0) print_summary(generation);
  QUIRE_RETURN_IF_ERROR(generation.error);
  if (interrupt.interrupted()) return {StatusCode::kCancelled, "interrupted"};
  return {};
}

void print_summary(const BatchSummary& summary) {
  std::string line = fmt::format(
      "{} requests ({} errors), {} prompt and {} output tokens in {:.1f} "
      "s: {:.1f} output tokens/s",
      summary.num_requests, summary.num_errors, summary.prompt_tokens, summary.output_tokens,
      summary.seconds, static_cast<double>(summary.output_tokens) / summary.seconds);
  if (summary.num_skipped > 0) {
    line += fmt::format("; {} skipped, for the output had them", summary.num_skipped);
  }
  fmt::print(stderr, "{}\n", line);
}

Status run_file(Engine& engine, const GenerateFlags& flags, std::istream& input, OutputFile& output,
                DoneRecords* done, InterruptWatcher& interrupt) {
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  constexpr std::int64_t kMostWaiting = 4096;  // what the scheduler queues
  BatchOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.defaults, sampling_params(engine, flags));
  options.max_tokens_given = flags.sampling.contains("max_tokens");
  options.unordered = flags.unordered;
  // Enough lines to keep every sequence busy while others wait for their turn to be written.
  options.window = std::min<std::int64_t>(4L * flags.engine.max_num_seqs, kMostWaiting);
  options.done = done;
  options.interrupted = [&] { return interrupt.interrupted(); };
  EngineBackend backend(engine);
  QUIRE_ASSIGN_OR_RETURN(const BatchSummary summary, run_batch(backend, input, output, options));
  QUIRE_RETURN_IF_ERROR(output.close());
  print_summary(summary);
  if (interrupt.interrupted()) {
    return {StatusCode::kCancelled,
            fmt::format("interrupted; {} requests that were running have no record",
                        summary.num_dropped)};
  }
  return {};
}

Status check_generate_flags(const GenerateFlags& flags) {
  QUIRE_RETURN_IF_ERROR(check_engine_args(flags.engine));
  const int sources = static_cast<int>(flags.prompt.has_value()) +
                      static_cast<int>(flags.chat.has_value()) +
                      static_cast<int>(!flags.input.empty());
  if (sources != 1) {
    return Status::invalid_argument(
        sources == 0 ? "generate needs a prompt" : "generate takes only one kind of prompt",
        "give one of --prompt TEXT, --chat TEXT and --input FILE");
  }
  if (flags.input.empty() && (flags.resume || flags.unordered)) {
    return Status::invalid_argument(
        fmt::format("{} is for a file of requests", flags.resume ? "--resume" : "--unordered"),
        "give --input FILE");
  }
  if (flags.resume && flags.output == "-") {
    return Status::invalid_argument("--resume needs the file that an earlier run has written",
                                    "give --output FILE");
  }
  return check_sampling_fields(flags.sampling, flags.engine.max_logprobs);
}

Status run_generate(const GenerateFlags& flags) {
  if (flags.schema) {
    QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
    return output.write(json::serialize(batch_line_schema()) + "\n");
  }
  QUIRE_RETURN_IF_ERROR(check_generate_flags(flags));
  // Files first: a mistyped name should not cost the time of loading a model.
  std::unique_ptr<std::istream> input;
  if (!flags.input.empty()) {
    QUIRE_ASSIGN_OR_RETURN(input, open_input(flags.input));
  }
  std::optional<DoneRecords> done;
  if (flags.resume) {
    QUIRE_ASSIGN_OR_RETURN(done, DoneRecords::read(flags.output));
  }
  QUIRE_ASSIGN_OR_RETURN(OutputFile output,
                         done ? OutputFile::append(flags.output, done->whole_bytes())
                              : OutputFile::create(flags.output));
  InterruptWatcher interrupt;
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(flags.engine));
  if (flags.input.empty()) return run_single(*engine, flags, output, interrupt);
  return run_file(*engine, flags, *input, output, done ? &*done : nullptr, interrupt);
}

}  // namespace

Command add_generate(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  set_help(app,
           {{{"quire generate --prompt 'Once upon a time' --max-tokens 100", "continue a text"},
             {"quire generate MODEL --input in.jsonl --output out.jsonl",
              "many requests, in one batch"}}});
  const std::string what = "What to generate";
  app.add_option("--prompt", flags->prompt, "Text to continue")->type_name("TEXT")->group(what);
  app.add_option("--chat", flags->chat, "A question, through the model's chat template")
      ->type_name("TEXT")
      ->group(what);
  app.add_option("--system", flags->system, "System message of --chat")
      ->type_name("TEXT")
      ->group(what);
  app.add_option("--input", flags->input,
                 "JSON lines with prompt, messages or prompt_token_ids; - is standard input")
      ->type_name("FILE")
      ->group(what);
  app.add_option("--output", flags->output, "File for the results of --input; - is standard output")
      ->type_name("FILE")
      ->capture_default_str()
      ->group(what);
  app.add_flag("--resume", flags->resume,
               "Keep the results of an earlier run in --output, and run only the lines whose ids "
               "are missing there")
      ->group(what);
  app.add_flag("--unordered", flags->unordered, "Write results in the order in which they finish")
      ->group(what);
  app.add_flag("--json", flags->json, "Print one JSON record instead of streaming text")
      ->group(what);
  app.add_flag("--schema", flags->schema,
               "Print the fields of a line of --input as JSON Schema, and exit")
      ->group(what);
  add_constraint_flags(app, flags->sampling, "What the text must be");
  add_sampling_flags(app, flags->sampling, "Sampling, and the defaults of --input's lines");
  add_engine_flags(app, flags->engine);
  return [flags] { return run_generate(*flags); };
}

}  // namespace quire
