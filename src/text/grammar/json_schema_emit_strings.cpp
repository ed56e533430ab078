// Strings and the names of members, as the emitter's spelling has them.
#include <algorithm>
#include <vector>

#include "text/grammar/json_schema_emit.h"
#include "text/grammar/json_schema_escapes.h"

namespace quire {
namespace {

// Raw strings of at most so many characters are one automaton.
constexpr std::uint32_t kRawInPlace = 1024;

// All texts that have `part` in them.
Result<Dfa> texts_with(std::string_view part, GrammarBudget& budget) {
  const std::vector<Dfa> parts = {Dfa::any_text(), Dfa::literal(part), Dfa::any_text()};
  return dfa_concat(parts, budget);
}

Result<Dfa> texts_without(const Dfa& dfa, std::string_view part, GrammarBudget& budget) {
  if (part.empty()) return dfa;
  QUIRE_ASSIGN_OR_RETURN(const Dfa with, texts_with(part, budget));
  return dfa_difference(dfa, with, budget);
}

// All characters but the first of `text`.
CharSet all_but_first_of(std::string_view text) {
  if (text.empty()) return CharSet::all();
  const auto code = static_cast<char32_t>(static_cast<unsigned char>(text.front()));
  return ~CharSet{{code, code}};
}

// As Python writes it in single quotes; JSON's form does for characters that it would escape.
std::optional<std::string> in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

bool is_bare_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '$';
  });
}

}  // namespace

Status SchemaEmitter::prepare_strings() {
  GrammarBudget& budget = space_->budget();
  Dfa character = json_character_spellings();
  if (spelling_.strings == ValueSpelling::Strings::kPython) {
    QUIRE_ASSIGN_OR_RETURN(character, dfa_difference(character, Dfa::literal("\\/"), budget));
    QUIRE_ASSIGN_OR_RETURN(const Dfa others, dfa_difference(character, Dfa::literal("'"), budget));
    const std::vector<Dfa> quoted = {others, Dfa::literal("\""), Dfa::literal("\\'")};
    QUIRE_ASSIGN_OR_RETURN(Dfa in_single, dfa_union(quoted, budget));
    single_character_ = builder_->regular(std::move(in_single));
  }
  // Where the length matters no more than a character is looked at: one that `outside` begins with
  // is always escaped then.
  Dfa counted;
  if (!spelling_.outside.empty()) {
    const Dfa begins = Dfa::literal(spelling_.outside.substr(0, 1));
    QUIRE_ASSIGN_OR_RETURN(counted, dfa_difference(character, begins, budget));
  }
  character_ = counted_character_ = builder_->regular(std::move(character));
  if (!spelling_.outside.empty()) counted_character_ = builder_->regular(std::move(counted));
  return {};
}

Result<ExprId> SchemaEmitter::string(const StringSet& texts) {
  if (spelling_.strings == ValueSpelling::Strings::kMarked) return marked_string(texts);
  return json_string(texts);
}

Result<ExprId> SchemaEmitter::json_string(const StringSet& texts) {
  GrammarBudget& budget = space_->budget();
  const ExprId quote = builder_->literal("\"");
  if (texts.is_all()) {
    if (any_string_) return *any_string_;
    ExprId inside = repeat(character_, 0, std::nullopt);
    if (!spelling_.outside.empty()) {
      QUIRE_ASSIGN_OR_RETURN(const Dfa all, builder_->language_of(inside));
      QUIRE_ASSIGN_OR_RETURN(Dfa allowed, texts_without(all, spelling_.outside, budget));
      inside = builder_->regular(std::move(allowed));
    }
    const RuleId rule = builder_->add_rule("string");
    builder_->define(rule, or_single(builder_->seq({quote, inside, quote}), 0, std::nullopt));
    any_string_ = builder_->rule(rule);
    return *any_string_;
  }
  if (texts.kind() == StringSet::Kind::kThese) {
    std::vector<ExprId> choices;
    for (const std::string& text : texts.texts()) {
      QUIRE_RETURN_IF_ERROR(budget.tick(text.size()));
      // Its characters are as they are, quotes and backslashes apart, which no mark has.
      if (!spelling_.outside.empty() && text.find(spelling_.outside) != std::string::npos) continue;
      choices.push_back(quoted(text));
    }
    return builder_->choice(choices);
  }
  for (const auto& [set, expr] : spelled_) {
    if (set == texts) return expr;
  }
  if (texts.kind() == StringSet::Kind::kLength) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId counted, counted_string(texts));
    spelled_.emplace_back(texts, counted);
    return counted;
  }
  QUIRE_ASSIGN_OR_RETURN(const ExprId inside, regular_texts(texts));
  const ExprId expr = builder_->seq({quote, inside, quote});
  spelled_.emplace_back(texts, expr);
  return expr;
}

Result<ExprId> SchemaEmitter::regular_texts(const StringSet& texts) {
  if (texts.more().automaton == nullptr || !spelling_.outside.empty()) return listed_texts(texts);
  const ExprId open = builder_->open(texts.more().automaton);
  if (texts.spelled() != nullptr) return open;  // which has all of its texts
  QUIRE_ASSIGN_OR_RETURN(const ExprId listed, listed_texts(texts));
  return builder_->choice({listed, open});
}

Result<ExprId> SchemaEmitter::listed_texts(const StringSet& texts) {
  // So many states (times counts) are few enough for one automaton of bytes, which masks take less
  // time with.
  constexpr std::uint64_t kStatesInPlace = 256;
  GrammarBudget& budget = space_->budget();
  if (texts.kind() == StringSet::Kind::kRegular && spelling_.outside.empty()) {
    if (!texts.is_counted() && texts.spelled() != nullptr) {
      return builder_->regular(
          std::shared_ptr<const Dfa>(texts.spelled(), &texts.spelled()->get()));
    }
    const std::uint64_t counts = texts.max() ? *texts.max() : std::max(texts.min(), 1U);
    if (counts * texts.automaton().num_states() > kStatesInPlace) {
      QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const CharacterAutomaton> automaton,
                             texts.characters(budget));
      return counted_text(*automaton, texts.min(), texts.max(), characters_, *builder_);
    }
  }
  if (texts.kind() == StringSet::Kind::kAllBut && spelling_.outside.empty()) {
    QUIRE_ASSIGN_OR_RETURN(auto spelled, json_spellings_of_others(texts.texts(), budget));
    if (spelled) return builder_->regular(*std::move(spelled));
  }
  QUIRE_ASSIGN_OR_RETURN(const Dfa meant, texts.language(budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa spelled, json_spellings(meant, budget));
  QUIRE_ASSIGN_OR_RETURN(spelled, texts_without(spelled, spelling_.outside, budget));
  return builder_->regular(std::move(spelled));
}

Result<ExprId> SchemaEmitter::counted_string(const StringSet& texts) {
  const ExprId quote = builder_->literal("\"");
  const std::optional<std::int64_t> max =
      texts.max() ? std::optional<std::int64_t>(*texts.max()) : std::nullopt;
  const RuleId rule = builder_->add_rule("string");
  const ExprId counted = repeat(counted_character_, texts.min(), max);
  builder_->define(rule, or_single(builder_->seq({quote, counted, quote}), texts.min(), max));
  return builder_->rule(rule);
}

// Python has another kind of quotes for so many characters.
ExprId SchemaEmitter::or_single(ExprId string, std::int64_t min, std::optional<std::int64_t> max) {
  if (spelling_.strings != ValueSpelling::Strings::kPython) return string;
  const ExprId quote = builder_->literal("'");
  return builder_->choice(
      {string, builder_->seq({quote, repeat(single_character_, min, max), quote})});
}

ExprId SchemaEmitter::quoted(std::string_view text) {
  const ExprId json = json_literal(text, *builder_);
  if (spelling_.strings != ValueSpelling::Strings::kPython) return json;
  const auto single = in_single_quotes(text);
  return single ? builder_->choice({json, builder_->literal(*single)}) : json;
}

Result<ExprId> SchemaEmitter::raw_text(const StringSet& texts, std::string_view end) {
  const bool counted = texts.kind() == StringSet::Kind::kLength;
  if (counted && std::max(texts.min(), texts.max().value_or(0)) > kRawInPlace) {
    const std::optional<std::int64_t> max =
        texts.max() ? std::optional<std::int64_t>(*texts.max()) : std::nullopt;
    return repeat(builder_->char_class(all_but_first_of(end)), texts.min(), max);
  }
  QUIRE_ASSIGN_OR_RETURN(const Dfa meant, texts.language(space_->budget()));
  QUIRE_ASSIGN_OR_RETURN(Dfa raw, texts_without(meant, end, space_->budget()));
  return builder_->regular(std::move(raw));
}

Result<ExprId> SchemaEmitter::marked_string(const StringSet& texts) {
  for (const auto& [set, expr] : spelled_) {
    if (set == texts) return expr;
  }
  QUIRE_ASSIGN_OR_RETURN(const ExprId raw, raw_text(texts, spelling_.outside));
  const RuleId rule = builder_->add_rule("string");
  builder_->define(rule, builder_->seq({spelling_.mark, raw, spelling_.mark}));
  spelled_.emplace_back(texts, builder_->rule(rule));
  return spelled_.back().second;
}

ExprId SchemaEmitter::name(std::string_view name) {
  if (spelling_.strings != ValueSpelling::Strings::kMarked) return quoted(name);
  if (is_bare_name(name)) return builder_->literal(name);
  return builder_->seq({spelling_.mark, builder_->literal(name), spelling_.mark});
}

Result<ExprId> SchemaEmitter::member(const StringSet& names, FormulaId formula) {
  if (outer_ != nullptr) return outer_->member(names, formula);
  QUIRE_ASSIGN_OR_RETURN(const ExprId spelled, string(names));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> expr, value(formula));
  if (!expr) return builder_->nothing();
  return builder_->seq({spelled, colon_, *expr});
}

Result<ExprId> SchemaEmitter::member(std::string_view its_name, FormulaId formula) {
  if (outer_ != nullptr) return outer_->member(its_name, formula);
  const auto [place, fresh] = members_.try_emplace(std::pair(std::string(its_name), formula), 0);
  if (!fresh) return place->second;
  QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> expr, value(formula));
  const bool unspeakable =
      !spelling_.outside.empty() && its_name.find(spelling_.outside) != std::string_view::npos;
  place->second =
      expr && !unspeakable ? builder_->seq({name(its_name), colon_, *expr}) : builder_->nothing();
  return place->second;
}

}  // namespace quire
