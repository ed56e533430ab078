// `quire bench make-model`: a model of a published shape with random weights.
#include <memory>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/make_model/make_model.h"
#include "apps/progress.h"

namespace quire {
namespace {

struct MakeModelFlags {
  std::string shape = "tinyllama-1.1b";
  std::string encoding = "bf16";
  std::string format = "hf";
  std::string output;
  std::uint64_t seed = 0;
};

Status run_make_model(const MakeModelFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ModelShape shape, find_shape(flags.shape));
  const MakeModelArgs args{
      .shape = shape,
      .encoding = flags.encoding,
      .format = flags.format == "gguf" ? ModelFormat::kGguf : ModelFormat::kHuggingFace,
      .output = flags.output,
      .seed = flags.seed};
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  ThreadPool pool(default_num_threads());
  ProgressBar bar(fmt::format("{} {}", flags.shape, flags.encoding), "MB");
  double megabytes = 0;
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    megabytes = static_cast<double>(total) / 1e6;
    bar.update(static_cast<double>(done) / 1e6, megabytes, "");
    return !interrupt.interrupted();
  };
  const Status status = make_model(args, pool, progress);
  if (!status.ok()) {
    bar.clear();
    return status;
  }
  bar.finish(megabytes, megabytes, "");
  fmt::print("{}: {} with random {} weights, seed {}\n", flags.output, flags.shape, flags.encoding,
             flags.seed);
  return {};
}

}  // namespace

Command add_bench_make_model(CLI::App& bench) {
  auto flags = std::make_shared<MakeModelFlags>();
  bench.add_option("--shape", flags->shape, "smollm-135m, tinyllama-1.1b or llama-3.2-3b")
      ->capture_default_str();
  bench
      .add_option("--encoding", flags->encoding,
                  "f32, f16, bf16; with --format gguf also q8_0, q4_0, q4_1, q4_k_m")
      ->capture_default_str();
  bench
      .add_option(
          "--format", flags->format,
          "hf: a folder of config.json, model.safetensors and tokenizer files; gguf: a file")
      ->check(CLI::IsMember({"hf", "gguf"}))
      ->capture_default_str();
  bench.add_option("--output", flags->output, "The folder or file to write; must not exist")
      ->required();
  bench.add_option("--seed", flags->seed, "Another seed is another model")->capture_default_str();
  return [flags] { return run_make_model(*flags); };
}

}  // namespace quire
