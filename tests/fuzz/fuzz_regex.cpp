// A byte of options, a regular expression, a zero byte, a text: an automaton or an error with a
// place; and what it says of the text agrees with what it says of parts of it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/follow_grammar.h"
#include "text/grammar/regex.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  quire::RegexOptions options;
  options.dialect = (data[0] & 1) != 0 ? quire::RegexOptions::Dialect::kEcma
                                       : quire::RegexOptions::Dialect::kPcre;
  options.ignore_case = (data[0] & 2) != 0;
  options.dot_all = (data[0] & 4) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t zero = bytes.find('\0');
  const std::string_view pattern = bytes.substr(0, zero);
  const std::string_view text =
      zero == std::string_view::npos ? std::string_view() : bytes.substr(zero + 1);

  quire::GrammarBudget budget(fuzz_grammar_limits());
  const auto whole = quire::regex_to_dfa(pattern, options, budget);
  options.whole_text = false;
  const auto part = quire::regex_to_dfa(pattern, options, budget);
  if (!whole.ok()) check_grammar_error(whole.status());
  if (!part.ok()) check_grammar_error(part.status());
  if (!whole.ok() || !part.ok()) return 0;
  if (whole->matches(text) && !part->matches(text)) std::abort();
  if (part->matches(text) && !quire::is_valid_utf8(text)) std::abort();
  if (const auto shortest = whole->shortest(); shortest && !part->matches(*shortest)) std::abort();
  // Without the texts that it has nothing is left.
  const auto nothing = quire::dfa_difference(*whole, *part, budget);
  if (nothing.ok() && !nothing->is_empty()) std::abort();
  return 0;
}
