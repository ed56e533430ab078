#include "text/dialects/argument_grammar.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/json_schema_emit.h"
#include "text/grammar/json_schema_space.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

// Harmony's marks begin so; within strings of a call's JSON it is spelled with an escape.
constexpr std::string_view kChannelMarkBegin = "<|";

bool is_word_name(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
  };
  return !name.empty() && std::ranges::all_of(name, is_word);
}

// Of names that a schema does not list, those that are words.
Result<std::optional<ExprId>> words_of(const StringSet& names, GrammarBuilder& builder) {
  GrammarBudget& budget = builder.budget();
  QUIRE_ASSIGN_OR_RETURN(Dfa word,
                         regex_to_dfa("[A-Za-z_][A-Za-z0-9_]{0,63}", RegexOptions(), budget));
  QUIRE_ASSIGN_OR_RETURN(const StringSet words,
                         intersect(names, StringSet::regular(std::move(word)), budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa language, words.language(budget));
  if (language.is_empty()) return std::optional<ExprId>();
  return std::optional(builder.regular(std::move(language)));
}

// name=value, ...)  and  name:value,...}
class LiteralObject final : public OuterObject {
 public:
  LiteralObject(bool python, ExprId mark, SchemaEmitter& emitter)
      : python_(python), mark_(mark), emitter_(emitter) {}

  ExprId begin() override { return builder().empty(); }
  ExprId end() override { return builder().literal(python_ ? ")" : "}"); }
  ExprId comma() override {
    return builder().seq({emitter_.white_space(), builder().literal(","), emitter_.white_space()});
  }
  Result<ExprId> member(std::string_view name, FormulaId value) override {
    if (is_word_name(name)) return with_value(builder().literal(name), value);
    if (python_) return builder().nothing();
    return with_value(builder().seq({mark_, builder().literal(name), mark_}), value);
  }
  Result<ExprId> member(const StringSet& names, FormulaId value) override {
    QUIRE_ASSIGN_OR_RETURN(const auto words, words_of(names, builder()));
    return words ? with_value(*words, value) : builder().nothing();
  }

 private:
  GrammarBuilder& builder() { return emitter_.builder(); }
  Result<ExprId> with_value(ExprId name, FormulaId formula) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> value, emitter_.value(formula));
    if (!value) return builder().nothing();
    return builder().seq({name, builder().literal(python_ ? "=" : ":"), *value});
  }

  bool python_;
  ExprId mark_;
  SchemaEmitter& emitter_;
};

// <parameter=name>value</parameter>
class TaggedObject final : public OuterObject {
 public:
  TaggedObject(const ToolDialect& dialect, const ToolSchema& tool, const ToolSet& types,
               const GrammarVocabulary& vocabulary, SchemaEmitter& emitter)
      : dialect_(dialect),
        tool_(tool),
        types_(types),
        emitter_(emitter),
        marks_(vocabulary, emitter.builder()) {}

  ExprId begin() override { return builder().empty(); }
  ExprId end() override { return builder().empty(); }
  ExprId comma() override { return emitter_.white_space(); }

  Result<ExprId> member(std::string_view name, FormulaId formula) override {
    if (name.find(dialect_.key_end) != std::string_view::npos) return builder().nothing();
    QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> value,
                           tag_value(types_.types(tool_.name, name), formula));
    return value ? tagged(builder().literal(name), *value) : builder().nothing();
  }
  Result<ExprId> member(const StringSet& names, FormulaId formula) override {
    QUIRE_ASSIGN_OR_RETURN(const auto words, words_of(names, builder()));
    QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> value, tag_value(0, formula));
    return words && value ? tagged(*words, *value) : builder().nothing();
  }

 private:
  GrammarBuilder& builder() { return emitter_.builder(); }

  ExprId tagged(ExprId name, ExprId value) {
    const ExprId line = dialect_.value_lines ? builder().literal("\n") : builder().empty();
    const ExprId between = dialect_.value_begin.empty()
                               ? builder().empty()
                               : builder().optional(builder().literal("\n"));
    // A rule of its own, since members that may be left out are written in many places.
    const RuleId rule = builder().add_rule("parameter");
    builder().define(
        rule, builder().seq({marks_.mark(dialect_.key_begin), name, marks_.mark(dialect_.key_end),
                             between, marks_.mark(dialect_.value_begin), line, value, line,
                             marks_.mark(dialect_.value_end)}));
    return builder().rule(rule);
  }

  // As TagArguments reads it: what may be a string is one, but for null; anything else is JSON.
  Result<std::optional<ExprId>> tag_value(std::uint8_t types, FormulaId formula) {
    if ((types & kStringType) == 0) return emitter_.value(formula);
    QUIRE_ASSIGN_OR_RETURN(const Shape* const shape, emitter_.space().expand(formula));
    std::vector<ExprId> ways;
    const bool null = (types & kNullType) != 0;
    if (null && shape->null_value) ways.push_back(builder().literal("null"));
    if (!shape->strings.is_none()) {
      StringSet texts = shape->strings;
      if (null) {
        GrammarBudget& budget = builder().budget();
        QUIRE_ASSIGN_OR_RETURN(Dfa nulls, regex_to_dfa("[ \\t\\r\\n]*(null|None)[ \\t\\r\\n]*",
                                                       RegexOptions(), budget));
        QUIRE_ASSIGN_OR_RETURN(const StringSet others,
                               complement(StringSet::regular(std::move(nulls)), budget));
        QUIRE_ASSIGN_OR_RETURN(texts, intersect(texts, others, budget));
      }
      QUIRE_ASSIGN_OR_RETURN(const ExprId raw, raw_text(texts));
      ways.push_back(raw);
    }
    if (ways.empty()) return std::optional<ExprId>();
    return std::optional(builder().choice(ways));
  }

  // A rule for each set of texts.
  Result<ExprId> raw_text(const StringSet& texts) {
    for (const auto& [set, expr] : raw_) {
      if (set == texts) return expr;
    }
    QUIRE_ASSIGN_OR_RETURN(const ExprId raw, emitter_.raw_text(texts, dialect_.value_end));
    const RuleId rule = builder().add_rule("text");
    builder().define(rule, raw);
    raw_.emplace_back(texts, builder().rule(rule));
    return raw_.back().second;
  }

  const ToolDialect& dialect_;
  const ToolSchema& tool_;
  const ToolSet& types_;
  SchemaEmitter& emitter_;
  DialectMarks marks_;
  std::vector<std::pair<StringSet, ExprId>> raw_;
};

ValueSpelling spelling_of(const ToolDialect& dialect, ArgumentForm form, DialectMarks& marks) {
  ValueSpelling spelling;
  switch (form) {
    case ArgumentForm::kJson:
      if (dialect.channels) spelling.outside = kChannelMarkBegin;
      break;
    case ArgumentForm::kTags:
      spelling.outside = dialect.value_end;
      break;
    case ArgumentForm::kPython:
      spelling.strings = ValueSpelling::Strings::kPython;
      break;
    case ArgumentForm::kBraces:
      spelling.strings = ValueSpelling::Strings::kMarked;
      spelling.outside = dialect.string_mark;
      spelling.mark = marks.mark(dialect.string_mark);
      break;
  }
  return spelling;
}

}  // namespace

Result<Grammar> argument_grammar(const ToolDialect& dialect, CallForm call_form,
                                 const ToolSchema& tool, const ToolSet& types,
                                 const GrammarVocabulary& vocabulary, GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const JsonSchemaDocument document,
                         JsonSchemaDocument::index(*tool.parameters));
  JsonSchemaOptions options;
  options.disable_additional_properties = true;
  SchemaSpace space(document, options, budget);
  GrammarBuilder builder(budget);
  DialectMarks marks(vocabulary, builder);
  const ArgumentForm form = call_form == CallForm::kNamed ? dialect.arguments : ArgumentForm::kJson;
  const ValueSpelling spelling = spelling_of(dialect, form, marks);
  SchemaEmitter emitter(space, builder, spelling);
  switch (form) {
    case ArgumentForm::kTags: {
      TaggedObject object(dialect, tool, types, vocabulary, emitter);
      return emitter.emit_objects(space.root(), &object);
    }
    case ArgumentForm::kPython:
    case ArgumentForm::kBraces: {
      LiteralObject object(form == ArgumentForm::kPython, spelling.mark, emitter);
      return emitter.emit_objects(space.root(), &object);
    }
    case ArgumentForm::kJson:
      break;
  }
  return emitter.emit_objects(space.root(), nullptr);
}

}  // namespace quire
