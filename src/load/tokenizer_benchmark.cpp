// Encoding and decoding of whole texts on one thread, with real vocabularies:
//   QUIRE_BENCHMARK_MODEL=a GGUF file or a model folder  QUIRE_BENCHMARK_TEXT=a text file
// bench/peers/tokenizers.py runs it beside the tokenizers library.
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "base/file.h"
#include "load/model_bundle.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

struct Input {
  TextBundle bundle;
  std::string text;
};

// Null, with the benchmark skipped, where a variable is not set or names nothing.
std::unique_ptr<Input> open_input(benchmark::State& state) {
  const char* model = std::getenv("QUIRE_BENCHMARK_MODEL");
  const char* path = std::getenv("QUIRE_BENCHMARK_TEXT");
  if (model == nullptr || path == nullptr) {
    state.SkipWithError("set QUIRE_BENCHMARK_MODEL and QUIRE_BENCHMARK_TEXT");
    return nullptr;
  }
  auto bundle = open_text(model);
  auto text = read_file(path, 1U << 30);
  if (!bundle.ok() || !text.ok()) {
    state.SkipWithError("the model or the text cannot be read");
    return nullptr;
  }
  return std::make_unique<Input>(Input{std::move(*bundle), std::move(*text)});
}

void BM_Encode(benchmark::State& state) {
  const auto input = open_input(state);
  if (input == nullptr) return;
  std::size_t ids = 0;
  for (auto _ : state) {
    const auto encoded = input->bundle.tokenizer->encode(
        input->text, {.add_special_tokens = false, .parse_special = true});
    ids = encoded.ok() ? encoded->size() : 0;
    benchmark::DoNotOptimize(ids);
  }
  state.counters["ids"] = static_cast<double>(ids);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(input->text.size()));
}
BENCHMARK(BM_Encode)->Unit(benchmark::kMillisecond);

void BM_Decode(benchmark::State& state) {
  const auto input = open_input(state);
  if (input == nullptr) return;
  const auto ids = input->bundle.tokenizer->encode(
      input->text, {.add_special_tokens = false, .parse_special = true});
  if (!ids.ok()) {
    state.SkipWithError("the text cannot be encoded");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(input->bundle.tokenizer->decode(*ids));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(input->text.size()));
}
BENCHMARK(BM_Decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
