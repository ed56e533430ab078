// A grammar of Lark: read and followed, or an error with a place.
#include <cstdint>
#include <string_view>

#include "fuzz/follow_grammar.h"
#include "text/grammar/grammar_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quire::GrammarBudget budget(fuzz_grammar_limits());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto grammar = quire::lark_grammar(text, budget);
  if (grammar.ok()) {
    follow_grammar(*grammar);
  } else {
    check_grammar_error(grammar.status());
  }
  return 0;
}
