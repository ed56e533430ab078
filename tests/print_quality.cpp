// Prints what other weights of a model cost, for scripts/measure_encodings.py, which writes them:
//
//   print_quality TEXT MODEL OTHER...
//
// On the tokens of the file TEXT, at most 512, a JSON line for MODEL and each OTHER, which has its
// tokenizer: perplexity, and mean divergence from MODEL, in float32 and in default arithmetic at
// the best level.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "load/model_bundle.h"
#include "support/distribution.h"

namespace quire::test {
namespace {

constexpr std::size_t kMaxPositions = 512;

Result<std::vector<TokenId>> text_tokens(const std::string& path, const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(path, 1U << 20));
  QUIRE_ASSIGN_OR_RETURN(const auto bundle, open_text(model));
  QUIRE_ASSIGN_OR_RETURN(auto tokens, bundle.tokenizer->encode(text, {.add_special_tokens = true}));
  if (tokens.size() < 2) return Status::invalid_argument("the text is too short");
  tokens.resize(std::min(tokens.size(), kMaxPositions));
  return tokens;
}

// Prints the line of `model`; its distribution in float32 becomes `exact` where there is none.
Status print_line(const std::string& model, const std::vector<TokenId>& tokens,
                  std::optional<Distribution>& exact) {
  const IsaLevel level = available_levels().back();
  json::object line = {
      {"model", model}, {"positions", tokens.size()}, {"level", isa_level_name(level)}};
  struct Arithmetic {
    std::string_view name;
    ActivationMode mode;
    DType kv_dtype;
  };
  for (const Arithmetic& arithmetic : {Arithmetic{"float32", ActivationMode::kFloat32, DType::kF32},
                                       {"default", ActivationMode::kInt16, DType::kBF16}}) {
    QUIRE_ASSIGN_OR_RETURN(const auto scorer,
                           Scorer::open(model, level, arithmetic.mode, arithmetic.kv_dtype,
                                        static_cast<std::int64_t>(tokens.size())));
    const Distribution got = distribution(*scorer, tokens);
    if (!exact) exact = got;
    line[arithmetic.name] =
        json::object{{"perplexity", got.perplexity}, {"divergence", mean_divergence(*exact, got)}};
  }
  std::puts(json::serialize(line).c_str());
  std::fflush(stdout);
  return {};
}

Status print_all(const std::string& text, std::span<char*> models) {
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, text_tokens(text, models[0]));
  std::optional<Distribution> exact;
  for (const char* model : models) QUIRE_RETURN_IF_ERROR(print_line(model, tokens, exact));
  return {};
}

}  // namespace
}  // namespace quire::test

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("print_quality TEXT MODEL OTHER...\n", stderr);
    return 64;
  }
  const quire::Status status =
      quire::test::print_all(argv[1], std::span(argv + 2, static_cast<std::size_t>(argc) - 2));
  if (status.ok()) return 0;
  std::fprintf(stderr, "print_quality: %s\n", status.to_string().c_str());
  return 1;
}
