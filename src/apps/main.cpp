// The `quire` program: picks the command, runs it, turns its status into an exit code.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <new>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/vllm_flags.h"
#include "base/exhaustion.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace quire {
namespace {

// The command that the user got as far as naming: "bench" of "bench latenzy".
const CLI::App& deepest_parsed(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : deepest_parsed(*subcommands.front());
}

// "quire bench latency".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// The flags and commands that may follow `command`.
std::vector<std::string> names(const CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
  }
  for (const CLI::App* sub : command.get_subcommands({})) all.push_back(sub->get_name());
  if (full_name(command) == "quire serve") {
    for (const VllmFlag& flag : vllm_flags()) all.emplace_back(flag.name);
  }
  return all;
}

// For CLI11's messages about values, which are "--port: 1 required PORT missing" and "Could not
// convert: --seed = x".
std::string in_our_words(const std::string& message) {
  static const std::regex kMissing("(--?[^ :]+): 1 required (.*) missing");
  static const std::regex kNotConverted("Could not convert: (--?[^ ]+) = (.*)");
  std::smatch found;
  if (std::regex_match(message, found, kMissing)) {
    return fmt::format("{} needs a value", found[1].str());
  }
  if (std::regex_match(message, found, kNotConverted)) {
    return fmt::format("{} does not accept \"{}\"", found[1].str(), printable(found[2].str(), 40));
  }
  return message;
}

// What is wrong with the command line; for a name that does not exist, the nearest that does.
Status usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = deepest_parsed(app);
  const std::string remedy = fmt::format("see {} --help", full_name(command));
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return Status::invalid_argument(in_our_words(error.what()), remedy);
  // The command where one is to be named, else a flag rather than the words around it.
  const bool needs_command = !command.get_subcommands({}).empty();
  const auto flag =
      std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with('-'); });
  const std::string& word = needs_command || flag == unknown.end() ? unknown.front() : *flag;
  const std::string name = word.substr(0, word.find('='));
  const auto suggestion = nearest(name, names(command));
  return Status::invalid_argument(
      fmt::format("{} does not know \"{}\"", full_name(command), name),
      suggestion ? fmt::format("did you mean {}?", *suggestion) : remedy);
}

Status run_command(const Command& command) {
  const Status status = or_status(command);
  if (status.code() == StatusCode::kIoError && std::ferror(stdout) != 0) {
    // What fmt::print throws where standard output cannot be written.
    return Status::io_error(fmt::format("cannot write to standard output: {}", status.message()));
  }
  QUIRE_RETURN_IF_ERROR(status);
  if (std::fflush(stdout) == 0) return {};
  return Status::io_error(
      fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
}

std::vector<std::string> normal_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "serve") {
    arguments = normalize_vllm_arguments(arguments);
  }
  return arguments;
}

// Whether the words behind a flag may all be its values, as in vLLM's scripts ("serve MODEL
// --served-model-name A B"): where the model is named already, so that none of them can be it.
bool may_list_values(std::span<const std::string> arguments) {
  if (arguments.size() < 2 || arguments.front() != "serve") return false;
  return !arguments[1].starts_with('-') ||
         std::ranges::any_of(arguments, [](const std::string& argument) {
           return argument == "--model" || argument.starts_with("--model=");
         });
}

// Whether a command's flags are looked at: where it is named, and where all are completed. The
// flags of all commands take as long as the start of a small server.
bool needs_flags(std::span<const std::string> arguments, std::string_view command) {
  return std::ranges::any_of(arguments, [command](const std::string& argument) {
    return argument == command || argument == "completion";
  });
}

// Prints an error; the process's exit code.
int report(const Status& status) {
  if (!status.ok() && status.code() != StatusCode::kCancelled) {
    fmt::print(stderr, "quire: {}\n", status.to_string());
  }
  return exit_code(status.code());
}

// For a person who has typed the program's name alone.
void print_first_steps() {
  fmt::print(
      "Quire serves large language models. To begin:\n\n"
      "  quire chat                      talk with the bundled model (quire chat MODEL: another)\n"
      "  quire serve MODEL               serve it: a page and an OpenAI-compatible API\n"
      "  quire generate --prompt TEXT    continue a text\n\n"
      "A model is ORG/NAME of the Hugging Face hub, a folder in its layout or a .gguf file. All "
      "commands: quire --help\n");
}

int run(int argc, char** argv) {
  if (argc <= 1) {
    print_first_steps();
    return 0;
  }
  std::vector<std::string> arguments = normal_arguments(argc, argv);
  CLI::App app("Quire serves large language models: the same tokens, always", "quire");
  app.set_version_flag("-v,--version", QUIRE_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  set_help(app, {{{"quire chat", "talk with the bundled model"},
                  {"quire serve MODEL", "serve a model: a page and an OpenAI-compatible API"}}});

  std::vector<std::pair<CLI::App*, Command>> commands;
  const auto add = [&](CLI::App& parent, const char* name, const char* description,
                       const std::function<Command(CLI::App&)>& make) {
    CLI::App* sub = parent.add_subcommand(name, description);
    if (!needs_flags(arguments, name)) return;
    commands.emplace_back(sub, make(*sub));
    if (!may_list_values(arguments)) expect_one_word_each(*sub);
  };
  add(app, "generate", "Generate text: one prompt, one chat question, or a file of them",
      add_generate);
  add(app, "serve", "Serve a model over HTTP: an OpenAI-compatible API",
      [&arguments](CLI::App& serve) { return add_serve(serve, arguments); });
  add(app, "chat", "Chat in a terminal, with a model here or with a server", add_chat);
  add(app, "top", "Watch a server's engine in a terminal", add_top);
  add(app, "pull", "Download a model from the Hugging Face hub, a URL or a bucket", add_pull);
  add(app, "list", "List the models that were pulled", add_list);
  add(app, "rm", "Remove a pulled model", add_rm);
  add(app, "inspect", "Show a model's facts, from its headers alone", add_inspect);
  add(app, "plan", "Compute the memory and speed of a model on other devices", add_plan);
  add(app, "simulate", "Run traffic in virtual time, under the real scheduler", add_simulate);
  add(app, "tokenize", "Show the tokens of a text, or turn a file of texts into token ids",
      add_tokenize);
  add(app, "detokenize", "Turn token ids into text", add_detokenize);
  add(app, "template", "Show the prompt of a conversation, and its tokens", add_template);
  add(app, "replay", "Replay an event log: the same calls give the same schedule", add_replay);
  add(app, "explain", "Show where a request's time went, from an event log", add_explain);
  add(app, "completion", "Complete commands, flags and their values in a shell", add_completion);
  CLI::App* bench = app.add_subcommand("bench", "Measure the engine and the machine");
  bench->require_subcommand(1);
  set_help(*bench, {{{"quire bench latency", "how fast one request is answered"},
                     {"quire bench throughput --concurrency 1,4,16", "how fast many are"}}});
  add(*bench, "latency", "Time to first token and per token, one request at a time",
      add_bench_latency);
  add(*bench, "throughput", "Tokens per second with many requests at once", add_bench_throughput);
  add(*bench, "step", "Measure the duration of a step, and where its time goes", add_bench_step);
  add(*bench, "core", "Measure the cost of scheduling, without a model", add_bench_core);
  add(*bench, "spec", "Measure the speedup by speculation (--speculative-config)", add_bench_spec);
  add(*bench, "limits", "Measure the limits of this machine", add_bench_limits);
  add(*bench, "calibrate", "Measure the cost of steps on this machine, for quire simulate",
      add_bench_calibrate);
  add(*bench, "serve", "Put load on a server over HTTP, Quire's or another, and measure it",
      add_bench_serve);
  add(*bench, "make-model", "Write a model of a published shape with random weights",
      add_bench_make_model);

  try {
    std::ranges::reverse(arguments);  // as CLI11 expects them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(usage_error(app, error));
  }
  for (const auto& [sub, command] : commands) {
    if (sub->parsed()) return report(run_command(command));
  }
  return report(Status::internal("no command ran"));
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  // A reader that goes away shows as a failed write, not as a signal.
  (void)std::signal(SIGPIPE, SIG_IGN);
  quire::init_logging(false);
  try {
    return quire::run(argc, argv);
  } catch (const std::system_error& error) {  // help into a pipe that was closed
    return quire::exit_code(quire::StatusCode::kIoError);
  } catch (const std::bad_alloc&) {
    return quire::exit_code(quire::StatusCode::kUnavailable);
  }
}
