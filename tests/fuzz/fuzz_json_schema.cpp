// Any bytes as a JSON Schema: a grammar or an error that says something, within the limits. A text
// that the grammar forces at its beginning is one that it accepts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/json_schema.h"

namespace {

std::shared_ptr<const quire::GrammarVocabulary> byte_vocabulary() {
  std::vector<quire::GrammarVocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), "", false});
  }
  tokens.push_back({"", "<end>", true});
  return quire::GrammarVocabulary::create(tokens);
}

void check_error(const quire::Status& status) {
  if (status.message().empty() || status.code() == quire::StatusCode::kInternal) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  quire::GrammarLimits limits;
  limits.max_states = 20'000;
  limits.max_edges = 200'000;
  quire::GrammarBudget budget(limits);
  quire::JsonSchemaOptions options;
  options.property_order =
      size % 2 == 0 ? quire::PropertyOrder::kDeclared : quire::PropertyOrder::kFree;
  const auto grammar = quire::json_schema_grammar(text, options, budget);
  if (!grammar.ok()) {
    check_error(grammar.status());
    return 0;
  }
  const auto compiled = quire::compile_grammar(*grammar, byte_vocabulary(), limits);
  if (!compiled.ok()) {
    check_error(compiled.status());
    return 0;
  }
  quire::GrammarMatcher matcher(*compiled);
  if (!matcher.accept_text(matcher.forced_text(64))) std::abort();
  return 0;
}
