// The `quire` program: picks the command, runs it, turns its status into an exit code.
#include <cstdio>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/commands.h"
#include "base/log.h"

namespace quire {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Quire serves large language models: the same tokens, always.", "quire");
  app.set_version_flag("--version", QUIRE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(40);

  std::vector<std::pair<CLI::App*, Command>> commands;
  const auto add = [&](CLI::App& parent, const char* name, const char* description,
                       Command (*make)(CLI::App&)) {
    CLI::App* sub = parent.add_subcommand(name, description);
    commands.emplace_back(sub, make(*sub));
  };
  add(app, "generate", "Generate text: one prompt, one chat question, or a file of them",
      add_generate);
  add(app, "inspect", "Show what a model is, from its headers alone", add_inspect);
  CLI::App* bench = app.add_subcommand("bench", "Measure the engine and the machine");
  bench->require_subcommand(1);
  add(*bench, "latency", "Time to first token and per token, one request at a time",
      add_bench_latency);
  add(*bench, "throughput", "Tokens per second with many requests at once", add_bench_throughput);
  add(*bench, "limits", "What the machine can do at most", add_bench_limits);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "quire: {}\nRun with --help for the flags of each command.\n", error.what());
    return exit_code(StatusCode::kInvalidArgument);
  }
  for (const auto& [sub, command] : commands) {
    if (!sub->parsed()) continue;
    const Status status = command();
    if (!status.ok() && status.code() != StatusCode::kCancelled) {
      fmt::print(stderr, "quire: {}\n", status.to_string());
    }
    return exit_code(status.code());
  }
  return exit_code(StatusCode::kInternal);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::init_logging(false);
  return quire::run(argc, argv);
}
