// The commands of the program. Each adds itself to the command line and returns what runs it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace quire {

// Runs a command whose flags were parsed. The status decides the exit code; an error is printed.
using Command = std::function<Status()>;

Command add_generate(CLI::App& app);
// `arguments`: the command line, normalized as vllm_flags.h says, for which of vLLM's flags it
// names.
Command add_serve(CLI::App& app, std::span<const std::string> arguments);
Command add_chat(CLI::App& app);
Command add_top(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_simulate(CLI::App& app);
Command add_tokenize(CLI::App& app);
Command add_detokenize(CLI::App& app);
Command add_template(CLI::App& app);
Command add_replay(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_pull(CLI::App& app);
Command add_list(CLI::App& app);
Command add_rm(CLI::App& app);
Command add_completion(CLI::App& app);
Command add_bench_latency(CLI::App& bench);
Command add_bench_throughput(CLI::App& bench);
Command add_bench_step(CLI::App& bench);
Command add_bench_core(CLI::App& bench);
Command add_bench_calibrate(CLI::App& bench);
Command add_bench_limits(CLI::App& bench);
Command add_bench_spec(CLI::App& bench);
Command add_bench_serve(CLI::App& bench);
Command add_bench_make_model(CLI::App& bench);

}  // namespace quire
