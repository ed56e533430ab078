// `quire bench make-model`: a model of a published shape with random weights.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
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
  std::int64_t num_layers = 0;  // 0: the shape's
  std::uint64_t seed = 0;
};

std::string shape_names() {
  std::vector<std::string_view> names;
  for (const ModelShape& shape : known_shapes()) names.push_back(shape.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

Status run_make_model(const MakeModelFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(ModelShape shape, find_shape(flags.shape));
  if (flags.num_layers != 0) shape.num_layers = flags.num_layers;
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
  set_help(bench,
           {{{"quire bench make-model --output tiny", "TinyLlama 1.1B in bfloat16, as a folder"},
             {"quire bench make-model --format gguf --encoding q4_0 --output q4.gguf",
              "as a file with 4 bits per weight"}}});
  bench.add_option("--shape", flags->shape, "Model whose layers and widths it gets")
      ->type_name("NAME")
      ->check(known_names(shape_names()))
      ->capture_default_str();
  bench
      .add_option("--num-layers", flags->num_layers,
                  "Layers, for a model of fewer weights (default: the shape's)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  bench
      .add_option("--encoding", flags->encoding,
                  "Encoding of the weights; those that begin with q are for --format gguf")
      ->type_name("NAME")
      ->check(one_of({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k_m"}))
      ->capture_default_str();
  bench
      .add_option(
          "--format", flags->format,
          "hf: a folder of config.json, model.safetensors and tokenizer files; gguf: a file")
      ->type_name("FORMAT")
      ->check(one_of({"hf", "gguf"}))
      ->capture_default_str();
  bench.add_option("--output", flags->output, "The folder or file to write; must not exist")
      ->type_name("FILE")
      ->required();
  bench.add_option("--seed", flags->seed, "Seed of the weights")
      ->type_name("N")
      ->capture_default_str();
  return [flags] { return run_make_model(*flags); };
}

}  // namespace quire
