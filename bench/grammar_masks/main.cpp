// What masks cost: a grammar, texts of it, a model's vocabulary. Compiles the grammar, walks each
// text token by token, and prints how long compiling and each token's mask took.
//   grammar_masks --tokenizer MODEL --grammar json.ebnf --texts lines.jsonl [--fresh]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/file.h"
#include "load/model_bundle.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_text.h"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void print_times(const char* what, std::vector<double>& times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  fmt::print("{:8} {:7} times  p50 {:9.1f} us  p90 {:9.1f}  p99 {:9.1f}  most {:9.1f}\n", what,
             times.size(), at(0.5), at(0.9), at(0.99), times.back());
}

struct Times {
  std::vector<double> compile, mask, accept;
};

quire::Status walk(const std::shared_ptr<const quire::CompiledGrammar>& grammar,
                   const quire::Tokenizer& tokenizer, std::string_view text, Times& times) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<quire::TokenId> tokens,
                         tokenizer.encode(text, {.add_special_tokens = false}));
  quire::GrammarMatcher matcher(grammar);
  std::vector<std::uint32_t> words(grammar->vocabulary().mask_words());
  for (const quire::TokenId token : tokens) {
    Clock::time_point begin = Clock::now();
    QUIRE_RETURN_IF_ERROR(matcher.fill_mask(words));
    times.mask.push_back(microseconds_since(begin));
    const auto id = static_cast<std::size_t>(token);
    const bool allowed = (words[id / 32] >> (id % 32) & 1) != 0;
    begin = Clock::now();
    const bool accepted = matcher.accept(token);
    times.accept.push_back(microseconds_since(begin));
    if (allowed && accepted) continue;
    return quire::Status::invalid_argument(
        fmt::format("token {} is not allowed after {} tokens of {}", token, matcher.num_accepted(),
                    text.substr(0, 60)));
  }
  if (!matcher.can_end()) return quire::Status::invalid_argument("a text ends too early");
  return {};
}

quire::Status measure(const std::string& tokenizer_path, const std::string& grammar_path,
                      const std::string& texts_path, bool fresh) {
  QUIRE_ASSIGN_OR_RETURN(const quire::TextBundle bundle, quire::open_text(tokenizer_path));
  Clock::time_point begin = Clock::now();
  const auto vocabulary = quire::GrammarVocabulary::create(*bundle.tokenizer);
  fmt::print("vocabulary of {} tokens in {:.1f} ms\n", vocabulary->size(),
             microseconds_since(begin) / 1000);
  QUIRE_ASSIGN_OR_RETURN(const std::string source, quire::read_file(grammar_path, 1U << 24));
  QUIRE_ASSIGN_OR_RETURN(const std::string texts, quire::read_file(texts_path, 1U << 28));
  Times times;
  std::shared_ptr<const quire::CompiledGrammar> compiled;
  for (std::size_t at = 0; at < texts.size();) {
    const std::size_t end = std::min(texts.find('\n', at), texts.size());
    const std::string text = texts.substr(at, end - at);
    at = end + 1;
    if (text.empty()) continue;
    if (compiled == nullptr || fresh) {
      begin = Clock::now();
      quire::GrammarBudget budget;
      QUIRE_ASSIGN_OR_RETURN(const quire::Grammar grammar,
                             quire::grammar_from_text(source, budget));
      QUIRE_ASSIGN_OR_RETURN(compiled, quire::compile_grammar(grammar, vocabulary));
      times.compile.push_back(microseconds_since(begin));
    }
    QUIRE_RETURN_IF_ERROR(walk(compiled, *bundle.tokenizer, text, times));
  }
  if (compiled == nullptr) return quire::Status::invalid_argument("there is no text to walk");
  const auto stats = compiled->stats();
  fmt::print("{} rules, {} states, {} edges\n", stats.rules, stats.states, stats.edges);
  print_times("compile", times.compile);
  print_times("mask", times.mask);
  print_times("accept", times.accept);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What masks of grammars cost"};
  std::string tokenizer, grammar, texts;
  bool fresh = false;
  app.add_option("--tokenizer", tokenizer, "a model's folder or GGUF file")->required();
  app.add_option("--grammar", grammar, "a file of EBNF or Lark")->required();
  app.add_option("--texts", texts, "a file with a text of the grammar on each line")->required();
  app.add_flag("--fresh", fresh, "compile the grammar again for each text");
  CLI11_PARSE(app, argc, argv);
  const quire::Status status = measure(tokenizer, grammar, texts, fresh);
  if (status.ok()) return 0;
  std::fprintf(stderr, "grammar_masks: %s\n", status.to_string().c_str());
  return quire::exit_code(status.code());
}
