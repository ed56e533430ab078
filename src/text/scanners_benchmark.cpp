// The speed of scanners on one thread, beside PCRE2 on the same pattern. The whole of encoding, on
// real vocabularies, is measured by bench/peers/tokenizers.py.
#include <string>

#include <benchmark/benchmark.h>

#include "text/pattern.h"
#include "text/scanners.h"

namespace quire {
namespace {

// C++ as people write it, about 1 MB.
std::string source_code() {
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i) {
    text += "  for (std::size_t index_" + std::to_string(i) +
            " = 0; index < tokens.size(); ++index) {\n" +
            "    // Don't count the token that ended the sequence; it's no part of the text.\n" +
            "    if (tokens[index] != kEndOfText && !is_special(tokens[index])) total += 1.5e3;\n  "
            "}\n\n";
  }
  return text;
}

void BM_Scan(benchmark::State& state, std::string_view regex) {
  const auto pattern = Pattern::create({.text = std::string(regex), .is_regex = true});
  const std::string text = source_code();
  std::size_t words = 0;
  for (auto _ : state) {
    Status status;
    Matches matches(**pattern, text);
    for (TextSpan match; matches.next(match, status);) ++words;
  }
  benchmark::DoNotOptimize(words);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(text.size()));
}

void BM_ScanPcre2(benchmark::State& state) {
  const auto pattern = Pattern::create_pcre2(gpt2_regex());
  const std::string text = source_code();
  std::size_t words = 0;
  for (auto _ : state) {
    Status status;
    Matches matches(**pattern, text);
    for (TextSpan match; matches.next(match, status);) ++words;
  }
  benchmark::DoNotOptimize(words);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(text.size()));
}

BENCHMARK_CAPTURE(BM_Scan, gpt2, known_regexes()[0]);
BENCHMARK_CAPTURE(BM_Scan, llama3, known_regexes()[2]);
BENCHMARK_CAPTURE(BM_Scan, o200k, known_regexes()[5]);
BENCHMARK(BM_ScanPcre2);

}  // namespace
}  // namespace quire
