#include "text/dialects/call_grammar.h"

#include <utility>

#include <fmt/format.h>

#include "text/dialects/argument_grammar.h"
#include "text/grammar/grammar_include.h"
#include "text/grammar/json_schema_escapes.h"

namespace quire {
namespace {

// Cohere's models number their calls before they name them.
constexpr std::string_view kNumberedName = "tool_name";
constexpr std::string_view kNumberKey = "tool_call_id";

ToolSet types_of(const AnswerForm::Calls& calls) {
  json::array tools;
  for (const AnswerForm::Function& function : calls.functions) {
    tools.push_back(
        json::object{{"function", {{"name", function.name}, {"parameters", function.parameters}}}});
  }
  return ToolSet(tools);
}

}  // namespace

CallGrammar::CallGrammar(const AnswerForm::Calls& calls, const GrammarVocabulary& vocabulary,
                         GrammarBuilder& builder)
    : calls_(calls),
      dialect_(*calls.dialect),
      vocabulary_(vocabulary),
      builder_(builder),
      marks_(vocabulary, builder),
      types_(types_of(calls)),
      gap_(builder.choice(
          {builder.literal("\n\n"), builder.seq({builder.optional(builder.literal("\n")),
                                                 builder.repeat(builder.literal(" "), 0, 4)})})) {}

Status CallGrammar::prepare() {
  const bool lists = dialect_.list != ListForm::kNever;
  const auto has = [&](CallForm form) {
    return (dialect_.list != ListForm::kRequired && dialect_.call == form) ||
           (lists && dialect_.listed == form);
  };
  const json::value any_object = {{"type", "object"}};
  for (const AnswerForm::Function& function : calls_.functions) {
    // What stands between tags is text or JSON by the type that the schema gives it.
    const bool tags = dialect_.arguments == ArgumentForm::kTags;
    const bool held = calls_.required || function.strict || tags;
    const ToolSchema tool{function.name, held ? &function.parameters : &any_object};
    const auto arguments = [&](CallForm form) -> Result<ExprId> {
      const auto grammar =
          argument_grammar(dialect_, form, tool, types_, vocabulary_, builder_.budget());
      if (!grammar.ok()) {
        return Status(grammar.status().code(),
                      fmt::format("{}: {}", function.name, grammar.status().message()),
                      grammar.status().remedy());
      }
      return include_grammar(*grammar, builder_);
    };
    if (has(CallForm::kObject) || dialect_.channels) {
      QUIRE_ASSIGN_OR_RETURN(const ExprId json, arguments(CallForm::kObject));
      json_.push_back(json);
    }
    if (!has(CallForm::kNamed)) continue;
    if (dialect_.arguments == ArgumentForm::kJson && !json_.empty()) {
      named_.push_back(json_.back());
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const ExprId named, arguments(CallForm::kNamed));
    named_.push_back(named);
  }
  if (dialect_.channels) return {};
  const RuleId rule = builder_.add_rule("calls");
  builder_.define(rule, body());
  body_ = builder_.rule(rule);
  return {};
}

// {"name": "f", "arguments": {...}}
ExprId CallGrammar::object_call(std::size_t function) {
  const auto string = [&](std::string_view text) { return json_literal(text, builder_); };
  const ExprId colon = builder_.seq({gap_, builder_.literal(":"), gap_});
  const ExprId comma = builder_.seq({gap_, builder_.literal(","), gap_});
  ExprId number = builder_.empty();
  if (dialect_.name_key == kNumberedName) {
    const ExprId digit = builder_.char_class(CharSet::ascii_digits());
    const ExprId quote = builder_.literal("\"");
    number = builder_.optional(builder_.seq(
        {string(kNumberKey), colon, quote, builder_.repeat(digit, 1, 3), quote, comma}));
  }
  return builder_.seq({builder_.literal("{"), gap_, number, string(dialect_.name_key), colon,
                       string(calls_.functions[function].name), comma,
                       string(dialect_.arguments_keys[0]), colon, json_[function], gap_,
                       builder_.literal("}")});
}

// The name between its marks, and arguments in the dialect's form.
ExprId CallGrammar::named_call(std::size_t function) {
  ExprId name = builder_.literal(calls_.functions[function].name);
  if (dialect_.ids == IdRule::kAsWritten) {
    const ExprId digit = builder_.char_class(CharSet::ascii_digits());
    name = builder_.seq({builder_.literal("functions."), name, builder_.literal(":"),
                         builder_.repeat(digit, 1, 4)});
  }
  ExprId name_end = mark(dialect_.name_end);
  // Mistral's models of before have no such mark, and no such token.
  if (!dialect_.id_mark.empty() && !marks_.is_token(dialect_.name_end)) {
    name_end = builder_.optional(name_end);
  }
  // The bracket that literals begin with is at the name; a fence has a line of its own.
  const bool literals =
      dialect_.arguments == ArgumentForm::kPython || dialect_.arguments == ArgumentForm::kBraces;
  const bool fence = !dialect_.arguments_end.empty();
  return builder_.seq({mark(dialect_.name_begin), name, fence ? gap_ : builder_.empty(), name_end,
                       literals ? builder_.empty() : gap_, named_[function],
                       mark_behind_gap(dialect_.arguments_end),
                       mark_behind_gap(dialect_.call_end)});
}

ExprId CallGrammar::mark_behind_gap(std::string_view text) {
  return text.empty() ? builder_.empty() : builder_.seq({gap_, mark(text)});
}

ExprId CallGrammar::call(CallForm form) {
  std::vector<ExprId> ways;
  for (std::size_t i = 0; i < calls_.functions.size(); ++i) {
    ways.push_back(form == CallForm::kObject ? object_call(i) : named_call(i));
  }
  return builder_.choice(ways);
}

ExprId CallGrammar::row(ExprId one, ExprId separator) {
  if (!calls_.parallel) return one;
  const RuleId rule = builder_.add_rule("call");
  builder_.define(rule, one);
  const ExprId each = builder_.rule(rule);
  return builder_.seq(
      {each, builder_.repeat(builder_.seq({gap_, separator, gap_, each}), 0, std::nullopt)});
}

ExprId CallGrammar::list() {
  return builder_.seq({builder_.literal("["), gap_,
                       row(call(dialect_.listed), builder_.literal(",")), gap_,
                       builder_.literal("]")});
}

// Whether several calls stand in one section, in no list, as the dialect's templates write them.
bool CallGrammar::has_rows() const {
  if (!dialect_.call_begin.empty() || !dialect_.separator.empty()) return true;
  if (dialect_.list == ListForm::kOptional && !dialect_.end.empty()) return true;
  const bool ends_calls = !dialect_.call_end.empty() && !dialect_.end.empty();
  const bool lines = dialect_.arguments == ArgumentForm::kPython && !dialect_.end.empty();
  return dialect_.call == CallForm::kNamed && (ends_calls || lines);
}

// What stands between a section's marks.
ExprId CallGrammar::body() {
  std::vector<ExprId> ways;
  if (dialect_.list != ListForm::kNever) ways.push_back(list());
  if (dialect_.list != ListForm::kRequired) {
    const ExprId one = builder_.seq({mark(dialect_.call_begin), call(dialect_.call)});
    ways.push_back(has_rows() ? row(one, mark(dialect_.separator)) : one);
  }
  return builder_.choice(ways);
}

ExprId CallGrammar::section(std::string_view begin) {
  if (begin == dialect_.name_begin) return body_;  // each call begins with it
  ExprId end = mark_behind_gap(dialect_.end);
  // Of Phi 4's two marks the one that is a word has no end.
  if (dialect_.list == ListForm::kRequired && !dialect_.begin[1].empty() &&
      !marks_.is_token(begin)) {
    end = builder_.optional(end);
  }
  return builder_.seq({mark(begin), gap_, body_, end});
}

ExprId CallGrammar::marked_calls() {
  std::vector<ExprId> sections;
  const bool named = dialect_.begin[0] == dialect_.name_begin;
  for (const std::string_view begin : dialect_.begin) {
    if (begin.empty() || (begin == dialect_.name_begin && !named)) continue;
    sections.push_back(section(begin));
  }
  if (sections.empty()) return builder_.nothing();
  const ExprId one = builder_.choice(sections);
  if (!calls_.parallel || dialect_.list == ListForm::kRequired) return one;
  return row(one, builder_.empty());
}

ExprId CallGrammar::calls() {
  return dialect_.bare ? builder_.choice({body_, marked_calls()}) : marked_calls();
}

ExprId CallGrammar::channel_call() {
  std::vector<ExprId> ways;
  const ExprId constrain = builder_.optional(
      builder_.seq({builder_.literal(" "), mark("<|constrain|>"), builder_.literal("json")}));
  for (std::size_t i = 0; i < calls_.functions.size(); ++i) {
    const ExprId to = builder_.literal(" to=functions." + calls_.functions[i].name);
    const ExprId channel = builder_.seq({mark("<|channel|>"), builder_.literal("commentary")});
    const ExprId header =
        builder_.choice({builder_.seq({to, channel}), builder_.seq({channel, to})});
    ways.push_back(
        builder_.seq({header, constrain, mark("<|message|>"), json_[i], mark("<|call|>")}));
  }
  return builder_.choice(ways);
}

}  // namespace quire
