#include "text/grammar/json_schema_escapes.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/grammar/fixed_dfa.h"
#include "text/grammar/json_schema_characters.h"
#include "text/grammar/nfa.h"
#include "text/grammar/regex.h"
#include "text/utf8.h"

namespace quire {
namespace {

struct ShortEscape {
  char32_t code;
  char letter;
};
constexpr std::array<ShortEscape, 8> kShortEscapes = {{{'"', '"'},
                                                       {'\\', '\\'},
                                                       {'/', '/'},
                                                       {0x08, 'b'},
                                                       {0x0C, 'f'},
                                                       {0x0A, 'n'},
                                                       {0x0D, 'r'},
                                                       {0x09, 't'}}};

// Which characters may be written by their number: those below 20 and those beyond ASCII, or all.
enum class Escapes : std::uint8_t { kBeyondAscii, kAll };

// Those that JSON does not allow as they are.
const CharSet& escaped_characters() {
  static const CharSet set({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  return set;
}

// Those with another spelling than their own, with kBeyondAscii.
const CharSet& special_characters() {
  static const CharSet set = escaped_characters() | CharSet{{0x7F, CharSet::kLastCode}};
  return set;
}

// Builds the automaton of spellings state by state.
class SpellingBuilder {
 public:
  explicit SpellingBuilder(Nfa& nfa) : nfa_(nfa) {}

  // The characters of `set` as they are where JSON allows that; by a short escape where there is
  // one (of the solidus only with kAll); and some as \uXXXX.
  void add(const CharSet& set, std::int32_t from, std::int32_t to, Escapes escapes);
  void add_escapes(const CharSet& set, std::int32_t from, std::int32_t to, Escapes escapes);
  // A state from which the escapes of special characters lead to `to`, the same for all that ask.
  std::int32_t escapes_to(const CharSet& set, std::int32_t to);

 private:
  std::int32_t behind_backslash(std::int32_t from);
  std::int32_t behind_u(std::int32_t from);
  void add_hex_digit(std::int32_t from, unsigned first, unsigned last, std::int32_t to);
  void add_hex(std::int32_t from, unsigned first, unsigned last, int digits, std::int32_t to);
  void add_pairs(std::int32_t from, char32_t first, char32_t last, std::int32_t to);

  Nfa& nfa_;
  std::map<std::int32_t, std::int32_t> backslashes_;
  std::map<std::int32_t, std::int32_t> unicode_;
  std::map<std::pair<CharSet, std::int32_t>, std::int32_t> known_;  // of escapes_to()
};

std::int32_t SpellingBuilder::behind_backslash(std::int32_t from) {
  const auto [place, fresh] = backslashes_.try_emplace(from, 0);
  if (fresh) {
    place->second = nfa_.add_state();
    nfa_.add_edge(from, '\\', '\\', place->second);
  }
  return place->second;
}

std::int32_t SpellingBuilder::behind_u(std::int32_t from) {
  const std::int32_t backslash = behind_backslash(from);
  const auto [place, fresh] = unicode_.try_emplace(from, 0);
  if (fresh) {
    place->second = nfa_.add_state();
    nfa_.add_edge(backslash, 'u', 'u', place->second);
  }
  return place->second;
}

void SpellingBuilder::add_hex_digit(std::int32_t from, unsigned first, unsigned last,
                                    std::int32_t to) {
  if (first <= 9) nfa_.add_edge(from, '0' + first, '0' + std::min(last, 9U), to);
  if (last < 10) return;
  const unsigned low = std::max(first, 10U) - 10;
  nfa_.add_edge(from, 'a' + low, 'a' + last - 10, to);
  nfa_.add_edge(from, 'A' + low, 'A' + last - 10, to);
}

void SpellingBuilder::add_hex(std::int32_t from, unsigned first, unsigned last, int digits,
                              std::int32_t to) {
  const unsigned size = 1U << (4 * (digits - 1));  // of what stands behind the first digit
  unsigned at = first;
  while (at <= last) {
    const unsigned digit = at / size;
    const unsigned rest = at % size;
    unsigned until = digit;
    unsigned end = std::min(last, digit * size + size - 1);
    // Whole blocks together.
    if (rest == 0 && end == digit * size + size - 1) {
      while (until < 15 && (until + 2) * size - 1 <= last) ++until;
      end = until * size + size - 1;
    }
    const std::int32_t next = digits == 1 ? to : nfa_.add_state();
    add_hex_digit(from, digit, until, next);
    if (digits > 1) add_hex(next, rest, end % size, digits - 1, to);
    at = end + 1;
  }
}

void SpellingBuilder::add_pairs(std::int32_t from, char32_t first, char32_t last, std::int32_t to) {
  unsigned at = first - 0x10000;
  const unsigned end = last - 0x10000;
  while (at <= end) {
    const unsigned high = at >> 10;
    unsigned until = high;
    unsigned stop = std::min(end, (high << 10) | 0x3FF);
    if ((at & 0x3FF) == 0 && (stop & 0x3FF) == 0x3FF) {
      while (((until + 2) << 10) - 1 <= end) ++until;
      stop = (until << 10) | 0x3FF;
    }
    const std::int32_t middle = nfa_.add_state();
    const std::int32_t backslash = nfa_.add_state();
    const std::int32_t low = nfa_.add_state();
    add_hex(from, 0xD800 + high, 0xD800 + until, 4, middle);
    nfa_.add_edge(middle, '\\', '\\', backslash);
    nfa_.add_edge(backslash, 'u', 'u', low);
    add_hex(low, 0xDC00 + (at & 0x3FF), 0xDC00 + (stop & 0x3FF), 4, to);
    at = stop + 1;
  }
}

void SpellingBuilder::add(const CharSet& set, std::int32_t from, std::int32_t to, Escapes escapes) {
  nfa_.add_chars(set & ~escaped_characters(), from, to);
  add_escapes(set, from, to, escapes);
}

void SpellingBuilder::add_escapes(const CharSet& set, std::int32_t from, std::int32_t to,
                                  Escapes escapes) {
  for (const ShortEscape& escape : kShortEscapes) {
    if (!set.contains(escape.code) || (escape.code == '/' && escapes != Escapes::kAll)) continue;
    const auto letter = static_cast<std::uint32_t>(escape.letter);
    nfa_.add_edge(behind_backslash(from), letter, letter, to);
  }
  CharSet by_number = set;
  if (escapes == Escapes::kBeyondAscii) by_number = set & ~CharSet({{0x20, 0x7E}});
  for (const CharRange& range : by_number.ranges()) {
    if (range.first <= 0xFFFF) {
      add_hex(behind_u(from), range.first, std::min<char32_t>(range.last, 0xFFFF), 4, to);
    }
    if (range.last > 0xFFFF) {
      add_pairs(behind_u(from), std::max<char32_t>(range.first, 0x10000), range.last, to);
    }
  }
}

std::int32_t SpellingBuilder::escapes_to(const CharSet& set, std::int32_t to) {
  const auto [place, fresh] = known_.try_emplace({set, to}, 0);
  if (fresh) {
    place->second = nfa_.add_state();
    add_escapes(set, place->second, to, Escapes::kBeyondAscii);
  }
  return place->second;
}

// The bytes of the edges of `from` that JSON allows as they are.
void add_plain_edges(const Dfa& meant, std::int32_t from, Nfa& nfa) {
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 3> kPlain = {
      {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0xFF}}};
  for (const DfaEdge& edge : meant.edges(from)) {
    for (const auto& [first, last] : kPlain) {
      const std::uint32_t begin = std::max(edge.first, first);
      const std::uint32_t end = std::min(edge.last, last);
      if (begin <= end) nfa.add_edge(from, begin, end, edge.target);
    }
  }
}

// Whether there are no characters but those with one spelling: ASCII's without quotes and
// backslashes.
bool is_spelled_as_meant(const Dfa& dfa) {
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
    for (const DfaEdge& edge : dfa.edges(state)) {
      const auto holds = [&edge](char c) {
        return edge.first <= static_cast<std::uint32_t>(c) &&
               static_cast<std::uint32_t>(c) <= edge.last;
      };
      if (edge.first < 0x20 || edge.last > 0x7E || holds('"') || holds('\\')) return false;
    }
  }
  return true;
}

}  // namespace

Result<Dfa> json_spellings(const Dfa& meant, GrammarBudget& budget) {
  if (meant.is_empty()) return Dfa::nothing();
  if (is_spelled_as_meant(meant)) return meant;
  QUIRE_ASSIGN_OR_RETURN(const CharacterAutomaton automaton, character_automaton(meant, budget));
  Nfa nfa;
  SpellingBuilder builder(nfa);
  for (std::size_t state = 0; state < meant.num_states(); ++state) nfa.add_state();
  const std::int32_t accept = nfa.add_state();
  for (std::int32_t state = 0; state < accept; ++state) {
    add_plain_edges(meant, state, nfa);
    if (meant.accepts(state)) nfa.add_empty(state, accept);
  }
  for (std::size_t i = 0; i < automaton.num_states(); ++i) {
    for (const CharacterEdge& edge : automaton.edges[i]) {
      const CharSet special = edge.characters & special_characters();
      if (special.empty()) continue;
      nfa.add_empty(automaton.states[i],
                    builder.escapes_to(special, automaton.states[edge.target]));
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(16));
    QUIRE_RETURN_IF_ERROR(budget.check_size(nfa.num_states(), nfa.num_edges()));
  }
  return nfa.determinize(0, accept, budget);
}

Result<Dfa> json_spellings_of_one(const CharSet& characters, GrammarBudget& budget) {
  Nfa nfa;
  const std::int32_t from = nfa.add_state();
  const std::int32_t to = nfa.add_state();
  SpellingBuilder(nfa).add(characters, from, to, Escapes::kBeyondAscii);
  return nfa.determinize(from, to, budget);
}

const Dfa& json_character_spellings() {
  static const Dfa dfa = fixed_dfa([](GrammarBudget& budget) {
    Nfa nfa;
    const std::int32_t from = nfa.add_state();
    const std::int32_t to = nfa.add_state();
    SpellingBuilder(nfa).add(CharSet::all(), from, to, Escapes::kAll);
    return nfa.determinize(from, to, budget);
  });
  return dfa;
}

ExprId json_literal(std::string_view text, GrammarBuilder& builder) {
  std::vector<ExprId> parts;
  std::string plain = "\"";
  const auto flush = [&] {
    if (!plain.empty()) parts.push_back(builder.literal(plain));
    plain.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const std::string_view bytes = text.substr(i, c.size);
    i += c.size;
    if (c.code == '"' || c.code == '\\') {
      plain.append("\\").append(bytes);
      continue;
    }
    if (c.code >= 0x20 && c.code < 0x7F) {
      plain += bytes;
      continue;
    }
    flush();
    std::vector<ExprId> spellings;
    if (c.code > 0x20) spellings.push_back(builder.literal(bytes));
    for (const ShortEscape& escape : kShortEscapes) {
      if (escape.code != c.code) continue;
      spellings.push_back(builder.literal(std::string("\\") + escape.letter));
    }
    const auto code = static_cast<std::uint32_t>(c.code);
    if (code <= 0xFFFF) {
      spellings.push_back(builder.literal(fmt::format("\\u{:04x}", code)));
      spellings.push_back(builder.literal(fmt::format("\\u{:04X}", code)));
    } else {
      const std::uint32_t high = 0xD800 + ((code - 0x10000) >> 10);
      const std::uint32_t low = 0xDC00 + ((code - 0x10000) & 0x3FF);
      spellings.push_back(builder.literal(fmt::format("\\u{:04x}\\u{:04x}", high, low)));
      spellings.push_back(builder.literal(fmt::format("\\u{:04X}\\u{:04X}", high, low)));
    }
    parts.push_back(builder.choice(spellings));
  }
  plain += '"';
  flush();
  return builder.seq(parts);
}

}  // namespace quire
