// Follows texts through the grammars of JSON Schemas, for json_schema_data_test.py and for
// bench/peers/structured_output.py.
//
//   follow_schemas [--order declared|free] [--no-format] [--vocabulary FILE] [--walks N] [--seed N]
//                  [--request-limits]
//
// With --request-limits a schema has the time and the size that one of a request has; without, 30
// seconds, so that what is refused does not depend on what the machine does besides.
// Times are the processor's. Reads lines {"schema": ..., "texts": ["...", ...]} and writes one for
// each: {"compile_us": N} and either "error": {"code", "message"}, or "accepted": [true, ...],
// "walks": ["...", ...] (texts made of random tokens of the mask) and, with a vocabulary,
// "mask_us": [...] of every token of the texts. A vocabulary has a line for each token: its bytes
// in hexadecimal, "-" for one without text, "end" for one that ends a sequence. Without one the
// tokens are the bytes.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cpu_time.h"
#include "base/json.h"
#include "base/random.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/json_schema.h"

namespace quire::test {
namespace {

double micros(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct Arguments {
  JsonSchemaOptions schema;
  std::string vocabulary;
  int walks = 0;
  std::uint64_t seed = 1;
  bool request_limits = false;
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--request-limits") {
      arguments.request_limits = true;
      continue;
    }
    if (flag == "--no-format") {
      arguments.schema.assert_format = false;
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument("a value is missing");
    const std::string value = argv[++i];
    if (flag == "--order" && (value == "free" || value == "declared")) {
      arguments.schema.property_order =
          value == "free" ? PropertyOrder::kFree : PropertyOrder::kDeclared;
    } else if (flag == "--vocabulary") {
      arguments.vocabulary = value;
    } else if (flag == "--walks") {
      arguments.walks = std::stoi(value);
    } else if (flag == "--seed") {
      arguments.seed = std::stoull(value);
    } else {
      throw std::invalid_argument("unknown flag or value");
    }
  }
  return arguments;
}

int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::vector<GrammarVocabulary::Token> read_tokens(const std::string& path) {
  std::vector<GrammarVocabulary::Token> tokens;
  if (path.empty()) {
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back({std::string(1, static_cast<char>(byte)), "", false});
    }
    tokens.push_back({"", "<end>", true});
    return tokens;
  }
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("no such vocabulary");
  for (std::string line; std::getline(file, line);) {
    GrammarVocabulary::Token token;
    token.is_end = line == "end";
    if (!token.is_end && line != "-") {
      for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
        token.bytes += static_cast<char>(hex_digit(line[i]) * 16 + hex_digit(line[i + 1]));
      }
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Splits a text into the longest tokens.
class Splitter {
 public:
  explicit Splitter(const std::vector<GrammarVocabulary::Token>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].bytes.empty()) continue;
      ids_.emplace(tokens[i].bytes, static_cast<TokenId>(i));
      longest_ = std::max(longest_, tokens[i].bytes.size());
    }
  }
  TokenId next(std::string_view rest) const {
    for (std::size_t size = std::min(longest_, rest.size()); size > 0; --size) {
      const auto found = ids_.find(std::string(rest.substr(0, size)));
      if (found != ids_.end()) return found->second;
    }
    throw std::invalid_argument("the vocabulary does not have every byte");
  }

 private:
  std::unordered_map<std::string, TokenId> ids_;
  std::size_t longest_ = 0;
};

bool has(const std::vector<std::uint32_t>& mask, TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  return (mask[index / 32] >> (index % 32) & 1) != 0;
}

// What is allowed byte by byte has to be allowed token by token, and by the mask.
bool follow(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text,
            const Splitter* splitter, json::array* times) {
  GrammarMatcher bytes(grammar);
  const bool accepted = bytes.accept_text(text) && bytes.can_end();
  if (splitter == nullptr) return accepted;
  GrammarMatcher tokens(grammar);
  std::vector<std::uint32_t> mask(grammar->vocabulary().mask_words());
  bool all = true;
  for (std::size_t at = 0; all && at < text.size();) {
    const TokenId id = splitter->next(text.substr(at));
    const Duration start = thread_cpu_time();
    const Status status = tokens.fill_mask(mask);
    times->push_back(micros(thread_cpu_time() - start));
    if (!status.ok()) throw std::runtime_error(status.to_string());
    const bool allowed = has(mask, id);
    if (allowed != tokens.accept(id)) throw std::runtime_error("mask and accept() differ");
    all = allowed;
    at += grammar->vocabulary().bytes(id).size();
  }
  if (all) {
    const Status status = tokens.fill_mask(mask);
    if (!status.ok()) throw std::runtime_error(status.to_string());
    all = has(mask, grammar->vocabulary().end_ids().front());
  }
  if (all != accepted) throw std::runtime_error("tokens and bytes differ");
  return accepted;
}

// The allowed token that `number` others come before.
TokenId nth_allowed(const std::vector<std::uint32_t>& mask, std::size_t number) {
  for (std::size_t word = 0;; ++word) {
    std::uint32_t bits = mask.at(word);
    const auto count = static_cast<std::size_t>(std::popcount(bits));
    if (number >= count) {
      number -= count;
      continue;
    }
    for (; number > 0; --number) bits &= bits - 1;
    return static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(bits)));
  }
}

// Tokens that close something, and those that end a text.
std::vector<TokenId> closing_tokens(const GrammarVocabulary& vocabulary) {
  std::vector<TokenId> closing(vocabulary.end_ids().begin(), vocabulary.end_ids().end());
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const std::string_view bytes = vocabulary.bytes(static_cast<TokenId>(i));
    if (bytes == "\"" || bytes == "}" || bytes == "]") closing.push_back(static_cast<TokenId>(i));
  }
  return closing;
}

// Random tokens of the mask until one ends the text. What closes something is taken more often, or
// few would end. Empty where none of 600 tokens did.
std::string walk(const std::shared_ptr<const CompiledGrammar>& grammar,
                 const std::vector<TokenId>& closing, std::uint64_t seed) {
  GrammarMatcher matcher(grammar);
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  std::vector<std::uint32_t> mask(vocabulary.mask_words());
  std::string text;
  for (std::uint64_t step = 0; step < 600; ++step) {
    const Status status = matcher.fill_mask(mask);
    if (!status.ok()) throw std::runtime_error(status.to_string() + " [" + text + "]");
    std::vector<TokenId> from;
    for (const TokenId id : closing) {
      if (has(mask, id)) from.push_back(id);
    }
    const std::uint64_t random = random_bits(seed, step);
    TokenId id = 0;
    if (!from.empty() && random % 3 != 0) {
      id = from[(random >> 8) % from.size()];
    } else {
      std::size_t allowed = 0;
      for (const std::uint32_t word : mask)
        allowed += static_cast<std::size_t>(std::popcount(word));
      id = nth_allowed(mask, (random >> 8) % allowed);
    }
    if (!matcher.accept(id)) throw std::runtime_error("a token of the mask is not accepted");
    if (vocabulary.is_end(id)) return text;
    text += vocabulary.bytes(id);
  }
  return {};
}

json::object answer(const json::object& line, const Arguments& arguments,
                    const std::shared_ptr<const GrammarVocabulary>& vocabulary,
                    const Splitter* splitter) {
  json::object out;
  const Duration start = thread_cpu_time();
  GrammarLimits limits;
  if (!arguments.request_limits) limits.max_compile_time = std::chrono::seconds(30);
  GrammarBudget budget(limits);
  const Result<Grammar> grammar =
      arguments.request_limits
          ? json_schema_grammar(json::serialize(line.at("schema")), arguments.schema, budget)
          : json_schema_grammar(line.at("schema"), arguments.schema, budget);
  Status status = grammar.status();
  std::shared_ptr<const CompiledGrammar> compiled;
  if (grammar.ok()) {
    auto made = compile_grammar(*grammar, vocabulary, limits);
    status = made.status();
    if (made.ok()) compiled = *made;
  }
  out["compile_us"] = micros(thread_cpu_time() - start);
  if (!status.ok()) {
    out["error"] = {{"code", status_code_name(status.code())}, {"message", status.to_string()}};
    return out;
  }
  out["states"] = compiled->stats().states;
  json::array accepted;
  json::array times;
  for (const json::value& text : line.at("texts").as_array()) {
    accepted.push_back(follow(compiled, std::string(text.as_string()), splitter, &times));
  }
  out["accepted"] = std::move(accepted);
  if (splitter != nullptr) out["mask_us"] = std::move(times);
  json::array walks;
  const std::vector<TokenId> closing = closing_tokens(*vocabulary);
  for (int i = 0; i < arguments.walks; ++i) {
    const std::string text =
        walk(compiled, closing, arguments.seed * 1000 + static_cast<std::uint64_t>(i));
    if (!text.empty()) walks.emplace_back(text);
  }
  out["walks"] = std::move(walks);
  return out;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  const auto tokens = read_tokens(arguments.vocabulary);
  const auto vocabulary = GrammarVocabulary::create(tokens);
  const Splitter splitter(tokens);
  for (std::string line; std::getline(std::cin, line);) {
    const Result<json::value> value = parse_json(line, "line", 512);
    if (!value.ok()) throw std::invalid_argument(value.status().to_string());
    const json::object out = answer(value->as_object(), arguments, vocabulary,
                                    arguments.vocabulary.empty() ? nullptr : &splitter);
    std::cout << json::serialize(out) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace quire::test

int main(int argc, char** argv) {
  try {
    return quire::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "follow_schemas: %s\n", error.what());
    return 70;
  }
}
