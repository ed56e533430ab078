// Sets of strings.
#include <algorithm>

#include "text/grammar/json_schema_characters.h"
#include "text/grammar/json_schema_sets.h"
#include "text/utf8.h"

namespace quire {
namespace {

std::vector<std::string> sorted_texts(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

std::uint32_t count_characters(std::string_view text) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) i += symbol_size(text, i);
  return count;
}

bool has_length(std::string_view text, std::uint32_t min, std::optional<std::uint32_t> max) {
  const std::uint32_t size = count_characters(text);
  return size >= min && (!max || size <= *max);
}

std::shared_ptr<const TextsAround> around_of(const StringSet& a, const StringSet& b) {
  return TextsAround::join(a.more().around, b.more().around);
}

std::vector<std::string> filter_texts(const StringSet& from, const StringSet& by, bool keep) {
  std::vector<std::string> texts;
  for (const std::string& text : from.texts()) {
    if (by.contains(text) == keep) texts.push_back(text);
  }
  return texts;
}

}  // namespace

const Dfa& DfaOnDemand::get() const {
  if (make_) std::call_once(made_, [this] { dfa_ = make_(); });
  return dfa_;
}

Result<std::shared_ptr<const CharacterAutomaton>> DfaOnDemand::characters(
    GrammarBudget& budget) const {
  const std::lock_guard lock(mutex_);
  if (characters_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(CharacterAutomaton made, character_automaton(get(), budget));
    characters_ = std::make_shared<const CharacterAutomaton>(std::move(made));
  }
  return characters_;
}

std::shared_ptr<const TextsAround> TextsAround::join(std::shared_ptr<const TextsAround> a,
                                                     std::shared_ptr<const TextsAround> b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  return std::make_shared<const TextsAround>([a = std::move(a), b = std::move(b)]() -> Result<Dfa> {
    QUIRE_ASSIGN_OR_RETURN(const Dfa left, a->language());
    QUIRE_ASSIGN_OR_RETURN(const Dfa right, b->language());
    GrammarBudget budget;
    return dfa_union(std::vector<Dfa>{left, right}, budget);
  });
}

const Result<Dfa>& TextsAround::language() const {
  std::call_once(made_, [this] { language_.emplace(make_()); });
  return *language_;
}

StringSet StringSet::these(std::vector<std::string> texts) {
  StringSet set(Kind::kThese);
  set.texts_ = std::make_shared<const std::vector<std::string>>(sorted_texts(std::move(texts)));
  return set;
}

StringSet StringSet::all_but(std::vector<std::string> texts) {
  StringSet set = these(std::move(texts));
  set.kind_ = Kind::kAllBut;
  return set;
}

StringSet StringSet::length(std::uint32_t min, std::optional<std::uint32_t> max) {
  if (max && *max < min) return none();
  if (min == 0 && !max) return all();
  if (max && *max == 0) return these({""});
  StringSet set(Kind::kLength);
  set.min_ = min;
  set.max_ = max;
  return set;
}

StringSet StringSet::regular(Dfa dfa) {
  if (dfa.is_empty()) return none();
  if (dfa == Dfa::any_text()) return all();
  StringSet set(Kind::kRegular);
  set.dfa_ = std::make_shared<const DfaOnDemand>(std::move(dfa));
  return set;
}

StringSet StringSet::kept(std::shared_ptr<const DfaOnDemand> dfa,
                          std::shared_ptr<const DfaOnDemand> spelled, OpenTexts more) {
  StringSet set(Kind::kRegular);
  set.dfa_ = std::move(dfa);
  set.spelled_ = std::move(spelled);
  set.more_ = std::move(more);
  return set;
}

StringSet StringSet::lacking(std::shared_ptr<const TextsAround> around) const {
  StringSet set = *this;
  if (kind_ == Kind::kRegular) set.more_ = {.automaton = nullptr, .around = std::move(around)};
  return set;
}

bool StringSet::contains(std::string_view text) const {
  switch (kind_) {
    case Kind::kThese:
      return std::binary_search(texts_->begin(), texts_->end(), text);
    case Kind::kAllBut:
      return !std::binary_search(texts_->begin(), texts_->end(), text);
    case Kind::kLength:
      return has_length(text, min_, max_);
    case Kind::kRegular:
      break;
  }
  if (more_.automaton != nullptr && more_.automaton->matches(text)) return true;
  return automaton().matches(text) && has_length(text, min_, max_);
}

Result<Dfa> StringSet::language(GrammarBudget& budget) const {
  switch (kind_) {
    case Kind::kThese:
    case Kind::kAllBut: {
      std::vector<Dfa> parts;
      for (const std::string& text : *texts_) parts.push_back(Dfa::literal(text));
      QUIRE_ASSIGN_OR_RETURN(Dfa dfa, dfa_union(parts, budget));
      if (kind_ == Kind::kThese) return dfa;
      return dfa_complement(dfa, budget);
    }
    case Kind::kLength:
      return dfa_repeat(Dfa::char_class(CharSet::all()), min_, max_, budget);
    case Kind::kRegular:
      break;
  }
  if (!is_counted()) return automaton();
  QUIRE_ASSIGN_OR_RETURN(const Dfa lengths, length(min_, max_).language(budget));
  return dfa_intersect(automaton(), lengths, budget);
}

Result<Dfa> StringSet::language_around(GrammarBudget& budget) const {
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, language(budget));
  if (more_.around == nullptr) return dfa;
  QUIRE_ASSIGN_OR_RETURN(const Dfa around, more_.around->language());
  const std::vector<Dfa> parts = {std::move(dfa), around};
  return dfa_union(parts, budget);
}

bool StringSet::operator==(const StringSet& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kLength || kind_ == Kind::kRegular) {
    if (min_ != other.min_ || max_ != other.max_) return false;
    if (more_.automaton != other.more_.automaton || more_.around != other.more_.around)
      return false;
    return dfa_ == other.dfa_ || automaton() == other.automaton();
  }
  return texts_ == other.texts_ || *texts_ == *other.texts_;
}

Result<StringSet> intersect(const StringSet& a, const StringSet& b, GrammarBudget& budget) {
  using Kind = StringSet::Kind;
  if (a.is_all() || b.is_none()) return b;
  if (b.is_all() || a.is_none()) return a;
  if (a.kind() == Kind::kThese) return StringSet::these(filter_texts(a, b, true));
  if (b.kind() == Kind::kThese) return StringSet::these(filter_texts(b, a, true));
  if (a.kind() == Kind::kAllBut && b.kind() == Kind::kAllBut) {
    std::vector<std::string> texts = a.texts();
    texts.insert(texts.end(), b.texts().begin(), b.texts().end());
    return StringSet::all_but(std::move(texts));
  }
  const std::uint32_t min = std::max(a.min(), b.min());
  std::optional<std::uint32_t> max = a.max();
  if (b.max() && (!max || *b.max() < *max)) max = b.max();
  if (a.kind() == Kind::kLength && b.kind() == Kind::kLength) return StringSet::length(min, max);
  if (a.kind() == Kind::kRegular && b.kind() == Kind::kLength) {
    return of_length(a, min, max, budget);
  }
  if (a.kind() == Kind::kLength && b.kind() == Kind::kRegular) {
    return of_length(b, min, max, budget);
  }
  if (a == b) return a;
  const bool counted = min > 0 || max;
  if (a.kind() == Kind::kRegular && b.kind() == Kind::kRegular && counted) {
    QUIRE_ASSIGN_OR_RETURN(Dfa both, dfa_intersect(a.automaton(), b.automaton(), budget));
    const StringSet uncounted = StringSet::regular(std::move(both)).lacking(around_of(a, b));
    if (uncounted.is_none()) return uncounted;
    return of_length(uncounted, min, max, budget);
  }
  QUIRE_ASSIGN_OR_RETURN(const Dfa left, a.language(budget));
  QUIRE_ASSIGN_OR_RETURN(const Dfa right, b.language(budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa both, dfa_intersect(left, right, budget));
  return StringSet::regular(std::move(both)).lacking(around_of(a, b));
}

Result<StringSet> of_length(const StringSet& set, std::uint32_t min,
                            std::optional<std::uint32_t> max, GrammarBudget& budget) {
  const bool has_more = set.more_.automaton != nullptr;
  if (has_more && min <= 1 && (!max || *max >= set.more_.max_length)) return set;
  if (max && *max < min) return StringSet::none();
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const CharacterAutomaton> characters,
                         set.characters(budget));
  const CharacterAutomaton& automaton = *characters;
  QUIRE_ASSIGN_OR_RETURN(const bool any, has_text_of_length(automaton, min, max, budget));
  if (!any) return StringSet::none();
  StringSet counted = set.lacking(set.more_.around);
  counted.min_ = min <= shortest_rests(automaton)[0] ? 0 : min;
  counted.max_ = max;
  const std::optional<std::uint32_t> longest = longest_text(automaton);
  if (max && longest && *longest <= *max) counted.max_.reset();
  return counted;
}

Result<StringSet> unite(const StringSet& a, const StringSet& b, GrammarBudget& budget) {
  using Kind = StringSet::Kind;
  if (a.is_all() || b.is_none()) return a;
  if (b.is_all() || a.is_none()) return b;
  if (a.kind() == Kind::kThese && b.kind() == Kind::kThese) {
    std::vector<std::string> texts = a.texts();
    texts.insert(texts.end(), b.texts().begin(), b.texts().end());
    return StringSet::these(std::move(texts));
  }
  if (a.kind() == Kind::kAllBut) return StringSet::all_but(filter_texts(a, b, false));
  if (b.kind() == Kind::kAllBut) return StringSet::all_but(filter_texts(b, a, false));
  QUIRE_ASSIGN_OR_RETURN(Dfa left, a.language(budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa right, b.language(budget));
  const std::vector<Dfa> parts = {std::move(left), std::move(right)};
  QUIRE_ASSIGN_OR_RETURN(Dfa either, dfa_union(parts, budget));
  StringSet set = StringSet::regular(std::move(either));
  if (set.kind() == Kind::kRegular) {
    set.more_ = a.more_.automaton != nullptr ? a.more_ : b.more_;
    set.more_.around = around_of(a, b);
  }
  return set;
}

Result<StringSet> complement(const StringSet& set, GrammarBudget& budget) {
  using Kind = StringSet::Kind;
  if (set.kind() == Kind::kThese) return StringSet::all_but(set.texts());
  if (set.kind() == Kind::kAllBut) return StringSet::these(set.texts());
  if (set.kind() == Kind::kLength) {
    if (!set.max()) return StringSet::length(0, set.min() - 1);
    const StringSet above = StringSet::length(*set.max() + 1, std::nullopt);
    if (set.min() == 0) return above;
    return unite(StringSet::length(0, set.min() - 1), above, budget);
  }
  QUIRE_ASSIGN_OR_RETURN(const Dfa dfa, set.language_around(budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa rest, dfa_complement(dfa, budget));
  return StringSet::regular(std::move(rest)).lacking(set.more().around);
}

Result<StringSet> difference(const StringSet& a, const StringSet& b, GrammarBudget& budget) {
  using Kind = StringSet::Kind;
  const bool automata = a.kind() == Kind::kRegular && !a.is_counted() &&
                        b.kind() == Kind::kRegular && !b.is_counted() && b.more().around == nullptr;
  if (automata) {
    QUIRE_ASSIGN_OR_RETURN(Dfa rest, dfa_difference(a.automaton(), b.automaton(), budget));
    return StringSet::regular(std::move(rest)).lacking(a.more().around);
  }
  QUIRE_ASSIGN_OR_RETURN(const StringSet outside, complement(b, budget));
  return intersect(a, outside, budget);
}

}  // namespace quire
