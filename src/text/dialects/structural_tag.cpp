#include "text/dialects/structural_tag.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "text/dialects/argument_grammar.h"
#include "text/dialects/dialect_marks.h"
#include "text/grammar/grammar_include.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/json_schema.h"

namespace quire {
namespace {

constexpr int kMaxTagDepth = 512;                    // of the JSON, schemas included
constexpr int kMaxFormatDepth = 64;                  // of formats within formats
constexpr std::string_view kAnyName = "parameters";  // of a function without one

class TagReader {
 public:
  TagReader(const GrammarVocabulary& vocabulary, GrammarBudget& budget)
      : vocabulary_(vocabulary), builder_(budget), marks_(vocabulary, builder_) {}

  Result<Grammar> read(const json::value& tag) {
    QUIRE_ASSIGN_OR_RETURN(const json::object* object, object_of(tag, "structural_tag"));
    const RuleId root = builder_.add_rule("structural tag");
    const bool older = object->contains("structures");
    QUIRE_ASSIGN_OR_RETURN(const ExprId body, older ? read_structures(*object)
                                                    : read_member(*object, "format", "", {}, 0));
    builder_.define(root, body);
    return builder_.build(root);
  }

 private:
  using Texts = std::vector<std::string_view>;

  static Status expected(const std::string& where, std::string_view what) {
    return Status::invalid_argument(fmt::format("{}: expected {}", where, what));
  }
  static Result<const json::object*> object_of(const json::value& value, const std::string& where) {
    if (!value.is_object()) return expected(where, "an object");
    return &value.get_object();
  }
  static std::string at(const std::string& where, std::string_view key) {
    return where.empty() ? std::string(key) : fmt::format("{}.{}", where, key);
  }
  static Result<std::string_view> text_at(const json::object& object, std::string_view key,
                                          const std::string& where) {
    const json::value* value = object.if_contains(key);
    if (value == nullptr || !value->is_string()) return expected(at(where, key), "a string");
    return std::string_view(value->get_string());
  }
  static Result<const json::array*> array_at(const json::object& object, std::string_view key,
                                             const std::string& where) {
    const json::value* value = object.if_contains(key);
    if (value == nullptr || !value->is_array() || value->get_array().empty()) {
      return expected(at(where, key), "an array with something in it");
    }
    return &value->get_array();
  }
  static Result<bool> flag_at(const json::object& object, std::string_view key,
                              const std::string& where) {
    const json::value* value = object.if_contains(key);
    if (value == nullptr || value->is_null()) return false;
    if (!value->is_bool()) return expected(at(where, key), "true or false");
    return value->get_bool();
  }
  // A text or several, each not empty; none where the key is missing.
  static Result<Texts> texts_at(const json::object& object, std::string_view key,
                                const std::string& where) {
    Texts texts;
    const json::value* value = object.if_contains(key);
    if (value == nullptr || value->is_null()) return texts;
    const auto add = [&](const json::value& item) -> Status {
      if (!item.is_string()) return expected(at(where, key), "a string or several");
      texts.emplace_back(item.get_string());
      return {};
    };
    if (!value->is_array()) {
      QUIRE_RETURN_IF_ERROR(add(*value));
      return texts;
    }
    for (const json::value& item : value->get_array()) QUIRE_RETURN_IF_ERROR(add(item));
    return texts;
  }

  Result<ExprId> free_text(const Texts& marks) {
    QUIRE_ASSIGN_OR_RETURN(Dfa text, text_without(marks, builder_.budget()));
    return builder_.regular(std::move(text));
  }

  Result<ExprId> schema(const json::value& schema, const std::string& where) {
    const auto grammar = json_schema_grammar(schema, JsonSchemaOptions(), builder_.budget());
    return included(grammar, where);
  }
  Result<ExprId> included(const Result<Grammar>& grammar, const std::string& where) {
    if (grammar.ok()) return include_grammar(*grammar, builder_);
    return Status(grammar.status().code(), fmt::format("{}: {}", where, grammar.status().message()),
                  grammar.status().remedy());
  }

  Result<ExprId> read_structures(const json::object& tag) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* structures, array_at(tag, "structures", ""));
    QUIRE_RETURN_IF_ERROR(array_at(tag, "triggers", "").status());
    QUIRE_ASSIGN_OR_RETURN(const Texts triggers, texts_at(tag, "triggers", ""));
    std::vector<ExprId> ways;
    for (std::size_t i = 0; i < structures->size(); ++i) {
      const std::string where = fmt::format("structures[{}]", i);
      QUIRE_ASSIGN_OR_RETURN(const json::object* one, object_of((*structures)[i], where));
      QUIRE_ASSIGN_OR_RETURN(const std::string_view begin, text_at(*one, "begin", where));
      QUIRE_ASSIGN_OR_RETURN(const std::string_view end, text_at(*one, "end", where));
      QUIRE_RETURN_IF_ERROR(check_trigger(begin, triggers, where));
      const json::value* inside = one->if_contains("schema");
      if (inside == nullptr) return expected(where + ".schema", "a JSON Schema");
      QUIRE_ASSIGN_OR_RETURN(const ExprId value, schema(*inside, where + ".schema"));
      ways.push_back(builder_.seq({marks_.mark(begin), value, marks_.mark(end)}));
    }
    return triggered(triggers, builder_.choice(ways), /*at_least_one=*/false, /*only_one=*/false);
  }

  static Status check_trigger(std::string_view begin, const Texts& triggers,
                              const std::string& where) {
    for (const std::string_view trigger : triggers) {
      if (trigger.empty()) return expected("triggers", "texts that are not empty");
      if (begin.starts_with(trigger)) return {};
    }
    return expected(where + ".begin", "a text that begins with one of the triggers");
  }

  // Text, and from a trigger on what `tag` is.
  Result<ExprId> triggered(const Texts& triggers, ExprId tag, bool at_least_one, bool only_one) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId text, free_text(triggers));
    const RuleId rule = builder_.add_rule("tag");
    builder_.define(rule, tag);
    const ExprId one = builder_.rule(rule);
    if (only_one) {
      const ExprId ending = builder_.seq({text, one});
      return at_least_one ? ending : builder_.choice({text, ending});
    }
    const ExprId more = builder_.seq({one, text});
    return builder_.seq({text, builder_.repeat(more, at_least_one ? 1 : 0, std::nullopt)});
  }

  Result<ExprId> read_member(const json::object& object, std::string_view key,
                             const std::string& where, const Texts& ends, int depth) {
    const json::value* value = object.if_contains(key);
    const std::string place = at(where, key);
    if (value == nullptr) return expected(place, "a format, which is missing");
    return read_format(*value, place, ends, depth);
  }

  Result<std::vector<ExprId>> read_list(const json::object& object, std::string_view key,
                                        const std::string& where, const Texts& ends, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* items, array_at(object, key, where));
    std::vector<ExprId> exprs;
    for (std::size_t i = 0; i < items->size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(
          const ExprId expr,
          read_format((*items)[i], fmt::format("{}[{}]", at(where, key), i), ends, depth));
      exprs.push_back(expr);
    }
    return exprs;
  }

  // `ends`: what ends the tag that it stands in.
  Result<ExprId> read_format(const json::value& value, const std::string& where, const Texts& ends,
                             int depth) {
    if (depth > kMaxFormatDepth) {
      return Status::resource_exhausted(
          fmt::format("{}: more than {} formats within each other", where, kMaxFormatDepth));
    }
    QUIRE_ASSIGN_OR_RETURN(const json::object* given, object_of(value, where));
    const json::object& format = *given;
    QUIRE_ASSIGN_OR_RETURN(const std::string_view type, text_at(format, "type", where));
    const auto inside = [&](std::string_view key) {
      return read_member(format, key, where, ends, depth + 1);
    };
    if (type == "const_string") {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view text, text_at(format, "value", where));
      return marks_.mark(text);
    }
    if (type == "any_text") {
      QUIRE_ASSIGN_OR_RETURN(Texts without, texts_at(format, "excludes", where));
      without.insert(without.end(), ends.begin(), ends.end());
      return free_text(without);
    }
    if (type == "json_schema" || type == "qwen_xml_parameter") {
      const json::value* its_schema = format.if_contains("json_schema");
      if (its_schema == nullptr) return expected(at(where, "json_schema"), "a JSON Schema");
      if (type == "json_schema") return schema(*its_schema, at(where, "json_schema"));
      return parameters(*its_schema, at(where, "json_schema"));
    }
    if (type == "regex") {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view pattern, text_at(format, "pattern", where));
      return included(regex_grammar(pattern, RegexOptions(), builder_.budget()),
                      at(where, "pattern"));
    }
    if (type == "grammar") {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view text, text_at(format, "grammar", where));
      return included(grammar_from_text(text, builder_.budget()), at(where, "grammar"));
    }
    if (type == "sequence" || type == "or") {
      QUIRE_ASSIGN_OR_RETURN(const auto parts,
                             read_list(format, "elements", where, ends, depth + 1));
      return type == "or" ? builder_.choice(parts) : builder_.seq(parts);
    }
    if (type == "optional" || type == "star" || type == "plus") {
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, inside("content"));
      if (type == "optional") return builder_.optional(part);
      return builder_.repeat(part, type == "plus" ? 1 : 0, std::nullopt);
    }
    if (type == "tag") return read_tag(format, where, depth);
    if (type == "triggered_tags") return read_triggered(format, where, depth);
    if (type == "tags_with_separator") return read_separated(format, where, depth);
    return Status::unimplemented(
        fmt::format("{}.type: \"{}\" is no format that is supported", where, type.substr(0, 40)),
        "const_string, json_schema, qwen_xml_parameter, regex, grammar, any_text, sequence, or, "
        "optional, star, plus, tag, triggered_tags and tags_with_separator are");
  }

  Result<ExprId> parameters(const json::value& its_schema, const std::string& where) {
    QUIRE_ASSIGN_OR_RETURN(const ToolDialect* dialect, find_tool_dialect("qwen3_coder"));
    const ToolSet types(
        json::array{json::object{{"function", {{"name", kAnyName}, {"parameters", its_schema}}}}});
    return included(argument_grammar(*dialect, CallForm::kNamed, {kAnyName, &its_schema}, types,
                                     vocabulary_, builder_.budget()),
                    where);
  }

  Result<ExprId> read_tag(const json::object& tag, const std::string& where, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view begin, text_at(tag, "begin", where));
    QUIRE_ASSIGN_OR_RETURN(const Texts ends, texts_at(tag, "end", where));
    if (ends.empty()) return expected(at(where, "end"), "a string or several");
    QUIRE_ASSIGN_OR_RETURN(const ExprId content,
                           read_member(tag, "content", where, ends, depth + 1));
    std::vector<ExprId> last;
    for (const std::string_view end : ends) last.push_back(marks_.mark(end));
    return builder_.seq({marks_.mark(begin), content, builder_.choice(last)});
  }

  Result<std::vector<ExprId>> read_tags(const json::object& format, const std::string& where,
                                        const Texts* triggers, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* tags, array_at(format, "tags", where));
    std::vector<ExprId> ways;
    for (std::size_t i = 0; i < tags->size(); ++i) {
      const std::string place = fmt::format("{}[{}]", at(where, "tags"), i);
      QUIRE_ASSIGN_OR_RETURN(const json::object* tag, object_of((*tags)[i], place));
      QUIRE_ASSIGN_OR_RETURN(const std::string_view begin, text_at(*tag, "begin", place));
      if (triggers != nullptr) QUIRE_RETURN_IF_ERROR(check_trigger(begin, *triggers, place));
      QUIRE_ASSIGN_OR_RETURN(const ExprId way, read_tag(*tag, place, depth + 1));
      ways.push_back(way);
    }
    return ways;
  }

  Result<ExprId> read_triggered(const json::object& format, const std::string& where, int depth) {
    QUIRE_RETURN_IF_ERROR(array_at(format, "triggers", where).status());
    QUIRE_ASSIGN_OR_RETURN(const Texts triggers, texts_at(format, "triggers", where));
    QUIRE_ASSIGN_OR_RETURN(const auto tags, read_tags(format, where, &triggers, depth));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag_at(format, "at_least_one", where));
    QUIRE_ASSIGN_OR_RETURN(const bool only_one, flag_at(format, "stop_after_first", where));
    QUIRE_ASSIGN_OR_RETURN(Texts marks, texts_at(format, "excludes", where));
    marks.insert(marks.end(), triggers.begin(), triggers.end());
    return triggered(marks, builder_.choice(tags), at_least_one, only_one);
  }

  Result<ExprId> read_separated(const json::object& format, const std::string& where, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const auto tags, read_tags(format, where, nullptr, depth));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view separator, text_at(format, "separator", where));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag_at(format, "at_least_one", where));
    QUIRE_ASSIGN_OR_RETURN(const bool only_one, flag_at(format, "stop_after_first", where));
    const RuleId rule = builder_.add_rule("tag");
    builder_.define(rule, builder_.choice(tags));
    ExprId row = builder_.rule(rule);
    if (!only_one) {
      const ExprId next = builder_.seq({marks_.mark(separator), builder_.rule(rule)});
      row = builder_.seq({row, builder_.repeat(next, 0, std::nullopt)});
    }
    return at_least_one ? row : builder_.optional(row);
  }

  const GrammarVocabulary& vocabulary_;
  GrammarBuilder builder_;
  DialectMarks marks_;
};

}  // namespace

Result<Grammar> structural_tag_grammar(std::string_view text, const GrammarVocabulary& vocabulary,
                                       GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const json::value tag, parse_json(text, "structural tag", kMaxTagDepth));
  return TagReader(vocabulary, budget).read(tag);
}

}  // namespace quire
