// `quire generate`: one prompt streamed to stdout, or a batch from a file.
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/batch_runner.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/generation_record.h"
#include "apps/interrupt.h"

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
  std::optional<std::int64_t> max_tokens;
  SamplingParams params;
};

// The one request of a command line, followed until it ends.
class SingleRun {
 public:
  explicit SingleRun(bool stream) : stream_(stream) {}

  void add(const RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    generation_.add(output);
    if (stream_ && !output.text.empty()) {
      fmt::print("{}", output.text);
      std::fflush(stdout);
    }
    if (output.finished) done_.notify_one();
  }

  Generation wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return generation_.last.finished; });
    return std::move(generation_);
  }

 private:
  bool stream_;
  std::mutex mutex_;
  std::condition_variable done_;
  Generation generation_;
};

Result<std::vector<TokenId>> encode_prompt(const Engine& engine, const GenerateFlags& flags) {
  if (!flags.chat) return engine.encode_text(*flags.prompt);
  json::array messages;
  if (!flags.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", flags.system}});
  }
  messages.push_back({{"role", "user"}, {"content", *flags.chat}});
  return engine.encode_chat(std::move(messages));
}

void print_json(const Generation& generation) {
  const RequestTimings timings = request_timings(generation.last);
  json::object record = generation_record(1, generation);
  record["timings"] = {
      {"ttft_s", timings.ttft_s}, {"tpot_s", timings.tpot_s}, {"e2e_s", timings.e2e_s}};
  fmt::print("{}\n", json::serialize(record));
}

void print_summary(const Generation& generation) {
  const RequestOutput& last = generation.last;
  const RequestTimings timings = request_timings(last);
  const std::string_view reason =
      last.finish_reason ? finish_reason_name(*last.finish_reason) : "error";
  fmt::print(stderr,
             "\n[{} prompt tokens, {} new; first after {:.0f} ms, then {:.1f} tokens/s; {}]\n",
             last.num_prompt_tokens, last.num_output_tokens, timings.ttft_s * 1e3,
             timings.tpot_s > 0 ? 1.0 / timings.tpot_s : 0.0, reason);
}

Status run_single(Engine& engine, const GenerateFlags& flags, InterruptWatcher& interrupt) {
  QUIRE_ASSIGN_OR_RETURN(auto prompt, encode_prompt(engine, flags));
  QUIRE_ASSIGN_OR_RETURN(auto request, prepare_request(engine, std::move(prompt), flags.params,
                                                       flags.max_tokens.has_value()));
  SingleRun run(!flags.json);
  QUIRE_ASSIGN_OR_RETURN(
      const RequestId id,
      engine.submit(std::move(request), [&](const RequestOutput& output) { run.add(output); }));
  interrupt.watch([&engine, id] { engine.abort(id); });
  const Generation generation = run.wait();
  if (flags.json) {
    print_json(generation);
  } else {
    fmt::print("\n");
    std::fflush(stdout);
    if (::isatty(STDERR_FILENO) != 0) print_summary(generation);
  }
  if (std::ferror(stdout) != 0) return Status::io_error("cannot write to standard output");
  QUIRE_RETURN_IF_ERROR(generation.last.error);
  if (interrupt.interrupted()) return {StatusCode::kCancelled, "interrupted"};
  return {};
}

Status run_file(Engine& engine, const GenerateFlags& flags, std::istream& input,
                std::ostream& output, InterruptWatcher& interrupt) {
  interrupt.watch([] {});
  // Enough lines to keep every sequence busy while others wait for their turn to be written.
  const std::int64_t window = 4L * flags.engine.max_num_seqs;
  QUIRE_ASSIGN_OR_RETURN(const BatchSummary summary,
                         run_batch(engine, input, output, flags.params,
                                   flags.max_tokens.has_value(), window, interrupt));
  fmt::print(stderr,
             "{} requests ({} errors), {} prompt and {} output tokens in {:.1f} s: {:.1f} "
             "output tokens/s\n",
             summary.num_requests, summary.num_errors, summary.prompt_tokens, summary.output_tokens,
             summary.seconds, static_cast<double>(summary.output_tokens) / summary.seconds);
  if (interrupt.interrupted()) return {StatusCode::kCancelled, "interrupted"};
  return {};
}

Status run_generate(const GenerateFlags& flags) {
  const int sources = static_cast<int>(flags.prompt.has_value()) +
                      static_cast<int>(flags.chat.has_value()) +
                      static_cast<int>(!flags.input.empty());
  if (sources != 1) {
    return Status::invalid_argument(
        sources == 0 ? "generate needs a prompt" : "generate takes only one kind of prompt",
        "give one of --prompt TEXT, --chat TEXT and --input FILE");
  }
  // Files first: a mistyped name should not cost the time of loading a model.
  std::ifstream input_file;
  std::ofstream output_file;
  if (!flags.input.empty() && flags.input != "-") {
    input_file.open(flags.input);
    if (!input_file) {
      return Status::not_found(fmt::format("cannot read {}", flags.input), "check the path");
    }
  }
  if (flags.output != "-") {
    output_file.open(flags.output);
    if (!output_file) return Status::io_error(fmt::format("cannot write {}", flags.output));
  }
  InterruptWatcher interrupt;
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(flags.engine));
  if (flags.input.empty()) return run_single(*engine, flags, interrupt);
  return run_file(*engine, flags, flags.input == "-" ? std::cin : input_file,
                  flags.output == "-" ? std::cout : output_file, interrupt);
}

}  // namespace

Command add_generate(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  const std::string what = "What to generate";
  app.add_option("--prompt", flags->prompt, "Text to continue")->group(what);
  app.add_option("--chat", flags->chat, "A question, through the model's chat template")
      ->group(what);
  app.add_option("--system", flags->system, "System message of --chat")->group(what);
  app.add_option("--input", flags->input,
                 "JSON lines with prompt, messages or prompt_token_ids; - is standard input")
      ->group(what);
  app.add_option("--output", flags->output, "Where --input's records go; - is standard output")
      ->capture_default_str()
      ->group(what);
  app.add_flag("--json", flags->json, "Print one JSON record instead of streaming text")
      ->group(what);

  const std::string sampling = "Sampling (defaults of --input's lines)";
  SamplingParams& params = flags->params;
  add_count(app, "--max-tokens", flags->max_tokens,
            "Output tokens at most (default: up to --max-model-len)", 1, 1LL << 31)
      ->group(sampling);
  app.add_option("--temperature", params.temperature, "0 takes the best token")
      ->capture_default_str()
      ->group(sampling);
  app.add_option("--top-k", params.top_k, "Sample among the k best; 0: all")
      ->capture_default_str()
      ->group(sampling);
  app.add_option("--top-p", params.top_p, "Sample among the best that make up this probability")
      ->capture_default_str()
      ->group(sampling);
  app.add_option("--stop", params.stop, "End before this text; may be repeated")->group(sampling);
  app.add_flag("--ignore-eos", params.ignore_eos, "Do not end at an end-of-sequence token")
      ->group(sampling);
  add_engine_flags(app, flags->engine);
  return [flags] {
    if (flags->max_tokens) flags->params.max_tokens = *flags->max_tokens;
    return run_generate(*flags);
  };
}

}  // namespace quire
