// Random answers under the grammars of calls, for tool_calls_data_test.py.
//
//   walk_calls
//
// Reads lines {"dialect": "hermes", "functions": [{"name", "parameters"}], "seed": N} and writes
// one for each: "error": {"code", "message"}, or "text", "ended" (whether it came to its end in
// time), and what a parser makes of it: "content" and "calls" [{"name", "arguments"}]. Tokens are
// the bytes and marks' first characters, so that nothing but the grammar makes sense of them.
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "text/dialects/answer_form.h"
#include "text/dialects/output_parser.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_matcher.h"

namespace quire::test {
namespace {

constexpr std::uint64_t kMaxTokens = 2500;

std::shared_ptr<const GrammarVocabulary> byte_vocabulary() {
  std::vector<GrammarVocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), "", false});
  }
  tokens.push_back({"", "<end>", true});
  return GrammarVocabulary::create(tokens);
}

struct Walk {
  std::string text;
  bool ended = false;
};

// What closes something is taken more often, or few would end.
Walk walk(const std::shared_ptr<const CompiledGrammar>& grammar, std::uint64_t seed) {
  GrammarMatcher matcher(grammar);
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::vector<std::uint32_t> mask(vocabulary.mask_words());
  Walk walked;
  for (std::uint64_t step = 0; step < kMaxTokens; ++step) {
    const Status status = matcher.fill_mask(mask);
    if (!status.ok()) throw std::runtime_error(status.to_string());
    std::vector<TokenId> allowed;
    std::vector<TokenId> closing;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      if ((mask[i / 32] >> (i % 32) & 1) == 0) continue;
      const auto id = static_cast<TokenId>(i);
      allowed.push_back(id);
      const std::string_view bytes = vocabulary.bytes(id);
      const bool closes =
          bytes.empty() || std::string_view("\"'}])<>/|").find(bytes[0]) != std::string_view::npos;
      if (closes) closing.push_back(id);
    }
    const std::uint64_t random = random_bits(seed, step);
    const std::vector<TokenId>& from = !closing.empty() && random % 3 != 0 ? closing : allowed;
    const TokenId id = from[(random >> 8) % from.size()];
    if (!matcher.accept(id)) throw std::runtime_error("a token of the mask is not accepted");
    if (vocabulary.is_end(id)) {
      walked.ended = true;
      break;
    }
    walked.text += vocabulary.bytes(id);
  }
  return walked;
}

void read_answer(const AnswerForm& form, const json::array& tools, std::string_view text,
                 json::object& out) {
  OutputParser parser({form.calls->dialect, nullptr}, std::make_shared<const ToolSet>(tools),
                      ReasoningStart::kUnsaid, /*id_seed=*/1);
  std::vector<OutputEvent> events;
  parser.feed(text, events);
  parser.finish(events);
  std::string content;
  json::array calls;
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::kContent) content += event.text;
    if (event.kind == OutputEvent::Kind::kCall) {
      calls.push_back(json::object{{"name", event.text}, {"arguments", ""}});
    } else if (event.kind == OutputEvent::Kind::kArguments) {
      calls.back().as_object()["arguments"].as_string() += event.text;
    }
  }
  out["content"] = content;
  out["calls"] = std::move(calls);
}

json::object answer(const json::object& line,
                    const std::shared_ptr<const GrammarVocabulary>& vocabulary) {
  AnswerForm form;
  form.calls.emplace();
  const auto dialect = find_tool_dialect(std::string(line.at("dialect").as_string()));
  if (!dialect.ok()) throw std::invalid_argument(dialect.status().to_string());
  form.calls->dialect = *dialect;
  form.calls->required = true;
  json::array tools;
  for (const json::value& function : line.at("functions").as_array()) {
    form.calls->functions.push_back({.name = std::string(function.at("name").as_string()),
                                     .parameters = function.at("parameters")});
    tools.push_back(json::object{{"type", "function"}, {"function", function}});
  }
  json::object out;
  GrammarLimits limits;
  limits.max_compile_time = std::chrono::seconds(60);  // whatever the machine does besides
  limits.max_depth = 250;
  GrammarBudget budget(limits);
  const auto grammar = answer_grammar(form, nullptr, *vocabulary, budget);
  Status status = grammar.status();
  std::shared_ptr<const CompiledGrammar> compiled;
  if (grammar.ok()) {
    auto made = compile_grammar(*grammar, vocabulary, limits);
    status = made.status();
    if (made.ok()) compiled = *made;
  }
  if (!status.ok()) {
    out["error"] = {{"code", status_code_name(status.code())}, {"message", status.to_string()}};
    return out;
  }
  const Walk walked = walk(compiled, line.at("seed").to_number<std::uint64_t>());
  out["ended"] = walked.ended;
  if (!walked.ended) return out;  // it may be cut within a character
  out["text"] = walked.text;
  read_answer(form, tools, walked.text, out);
  return out;
}

int run() {
  const auto vocabulary = byte_vocabulary();
  for (std::string line; std::getline(std::cin, line);) {
    const Result<json::value> value = parse_json(line, "line", 512);
    if (!value.ok()) throw std::invalid_argument(value.status().to_string());
    std::cout << json::serialize(answer(value->as_object(), vocabulary)) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace quire::test

int main() {
  try {
    return quire::test::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "walk_calls: %s\n", error.what());
    return 70;
  }
}
