// Drives a server with thousands of clients from one thread:
//   serve_load streams --clients 1000 --step-ms 50
//   serve_load disconnects --clients 10000 --step-ms 2 --max-num-seqs 64
//   serve_load slow --clients 100 --slow-clients 500 --step-ms 20
//   serve_load saturation --clients 256
//   serve_load soak --seconds 1800 --quire build/release/quire --model MODEL -- --threads 2
// The server is a simulated one in this process, or, with --quire, one of its own, or, with
// --address, one that runs.
#include <cstdio>
#include <pthread.h>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/descriptor_limit.h"
#include "serve_load/scenarios.h"
#include "serve_load/soak.h"

namespace quire::load {
namespace {

void print(const json::object& report, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", json::serialize(report));
    return;
  }
  for (const auto& entry : report) {
    const json::value& value = entry.value();
    const std::string text = value.is_string()   ? std::string(value.get_string())
                             : value.is_double() ? fmt::format("{:.6g}", value.get_double())
                                                 : json::serialize(value);
    fmt::print("{:<36}{:>14}\n", std::string_view(entry.key()), text);
  }
}

Result<json::object> measure(const std::string& scenario, const TargetConfig& config,
                             const LoadShape& shape) {
  if (scenario == "soak" && config.address.empty() && config.program.empty()) {
    return Status::invalid_argument("a soak needs a server with /v1/batches",
                                    "give --quire PROGRAM --model MODEL, or --address and --pid");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto target, Target::open(config));
  ::pthread_setname_np(::pthread_self(), "load-client");  // the threads of a server have theirs
  if (scenario == "streams") return measure_streams(*target, shape);
  if (scenario == "disconnects") return measure_disconnects(*target, shape);
  if (scenario == "slow") return measure_slow_readers(*target, shape);
  if (scenario == "saturation") return measure_saturation(*target, shape);
  const auto say = [](const std::string& line) { fmt::print(stderr, "soak: {}\n", line); };
  auto report = soak(*target, shape, say);
  if (report.ok()) QUIRE_RETURN_IF_ERROR(target->stop());
  return report;
}

int run(int argc, char** argv) {
  std::string scenario;
  TargetConfig target;
  LoadShape shape;
  bool as_json = false;
  CLI::App app("Load on a server, from one thread");
  app.add_option("scenario", scenario)
      ->required()
      ->check(CLI::IsMember({"streams", "disconnects", "slow", "saturation", "soak"}));
  const auto* clients = app.add_option("--clients", shape.clients, "at once (soak: 24)");
  app.add_option("--slow-clients", shape.slow_clients);
  const auto* max_tokens =
      app.add_option("--max-tokens", shape.max_tokens, "of an answer (soak: up to 16)")
          ->check(CLI::PositiveNumber);
  app.add_option("--prompt-tokens", shape.prompt_tokens);
  app.add_option("--seconds", shape.seconds, "of a saturation or a soak");
  app.add_option("--seed", shape.seed);
  auto* address = app.add_option("--address", target.address, "HOST:PORT of a server that runs");
  app.add_option("--pid", target.process, "its process, for memory, descriptors and CPU time");
  app.add_option("flags", target.flags, "behind --: further flags of the serve that is started");
  auto* quire = app.add_option("--quire", target.program, "the program whose serve is started");
  app.add_option("--model", target.model, "simulated: whose tokenizer and limits");
  app.add_option("--max-num-seqs", target.max_num_seqs);
  app.add_option("--max-num-batched-tokens", target.max_num_batched_tokens);
  app.add_option("--step-ms", target.step_ms, "time of a simulated step");
  app.add_flag("--json", as_json);
  quire->excludes(address);
  CLI11_PARSE(app, argc, argv);

  if (scenario == "soak" && clients->empty()) shape.clients = 24;
  if (scenario == "soak" && max_tokens->empty()) shape.max_tokens = 16;

  quire::raise_descriptor_limit();

  const auto report = measure(scenario, target, shape);
  if (!report.ok()) {
    fmt::print(stderr, "serve_load: {}\n", report.status().to_string());
    return 1;
  }
  print(*report, as_json);
  const json::value* broken = report->if_contains("broken");
  return broken != nullptr && !broken->as_array().empty() ? 1 : 0;
}

}  // namespace
}  // namespace quire::load

int main(int argc, char** argv) { return quire::load::run(argc, argv); }
