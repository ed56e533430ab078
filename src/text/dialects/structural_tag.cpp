#include "text/dialects/structural_tag.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
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
    QUIRE_ASSIGN_OR_RETURN(const JsonReader object, object_at(tag, "structural_tag"));
    const RuleId root = builder_.add_rule("structural tag");
    const bool older = object.contains("structures");
    QUIRE_ASSIGN_OR_RETURN(const ExprId body,
                           older ? read_structures(object) : read_member(object, "format", {}, 0));
    builder_.define(root, body);
    return builder_.build(root);
  }

 private:
  using Texts = std::vector<std::string_view>;

  static Status expected(std::string_view where, std::string_view what) {
    return Status::invalid_argument(fmt::format("{}: expected {}", where, what));
  }
  static Result<JsonReader> object_at(const json::value& value, std::string where) {
    if (!value.is_object()) return expected(where, "an object");
    return JsonReader(value.get_object(), std::move(where), StatusCode::kInvalidArgument);
  }
  static std::string at(const JsonReader& object, std::string_view key) {
    return fmt::format("{}.{}", object.where(), key);
  }
  static Result<bool> flag_at(const JsonReader& object, std::string_view key) {
    QUIRE_ASSIGN_OR_RETURN(const auto flag, object.find_bool(key));
    return flag.value_or(false);
  }
  // A text or several; none where the key is missing.
  static Result<Texts> texts_at(const JsonReader& object, std::string_view key) {
    Texts texts;
    const json::value* value = object.find(key);
    if (value == nullptr) return texts;
    const auto add = [&](const json::value& item) -> Status {
      if (!item.is_string()) return object.type_error(key, "a string or several");
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

  static Result<const json::value*> its_schema(const JsonReader& object, std::string_view key) {
    const json::value* value = object.find(key);
    if (value == nullptr) return object.type_error(key, "a JSON Schema");
    return value;
  }
  Result<ExprId> schema_at(const JsonReader& object, std::string_view key) {
    QUIRE_ASSIGN_OR_RETURN(const json::value* schema, its_schema(object, key));
    const auto grammar = json_schema_grammar(*schema, JsonSchemaOptions(), builder_.budget());
    return included(grammar, at(object, key));
  }
  Result<ExprId> included(const Result<Grammar>& grammar, const std::string& where) {
    if (grammar.ok()) return include_grammar(*grammar, builder_);
    return Status(grammar.status().code(), fmt::format("{}: {}", where, grammar.status().message()),
                  grammar.status().remedy());
  }

  Result<ExprId> read_structures(const JsonReader& tag) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* structures, tag.get_items("structures"));
    QUIRE_RETURN_IF_ERROR(tag.get_items("triggers").status());
    QUIRE_ASSIGN_OR_RETURN(const Texts triggers, texts_at(tag, "triggers"));
    std::vector<ExprId> ways;
    for (std::size_t i = 0; i < structures->size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(
          const JsonReader one,
          object_at((*structures)[i], fmt::format("{}[{}]", at(tag, "structures"), i)));
      QUIRE_ASSIGN_OR_RETURN(const std::string begin, one.get_string("begin"));
      QUIRE_ASSIGN_OR_RETURN(const std::string end, one.get_string("end"));
      QUIRE_RETURN_IF_ERROR(check_trigger(begin, triggers, one));
      QUIRE_ASSIGN_OR_RETURN(const ExprId value, schema_at(one, "schema"));
      ways.push_back(builder_.seq({marks_.mark(begin), value, marks_.mark(end)}));
    }
    return triggered(triggers, builder_.choice(ways), /*at_least_one=*/false, /*only_one=*/false);
  }

  static Status check_trigger(std::string_view begin, const Texts& triggers,
                              const JsonReader& tag) {
    for (const std::string_view trigger : triggers) {
      if (trigger.empty()) return expected("triggers", "texts that are not empty");
      if (begin.starts_with(trigger)) return {};
    }
    return expected(at(tag, "begin"), "a text that begins with one of the triggers");
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

  Result<ExprId> read_member(const JsonReader& object, std::string_view key, const Texts& ends,
                             int depth) {
    const json::value* value = object.find(key);
    if (value == nullptr) return object.type_error(key, "a format");
    return read_format(*value, at(object, key), ends, depth);
  }

  Result<std::vector<ExprId>> read_list(const JsonReader& object, std::string_view key,
                                        const Texts& ends, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* items, object.get_items(key));
    std::vector<ExprId> exprs;
    for (std::size_t i = 0; i < items->size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(
          const ExprId expr,
          read_format((*items)[i], fmt::format("{}[{}]", at(object, key), i), ends, depth));
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
    QUIRE_ASSIGN_OR_RETURN(const JsonReader format, object_at(value, where));
    QUIRE_ASSIGN_OR_RETURN(const std::string type, format.get_string("type"));
    if (type == "const_string") {
      QUIRE_ASSIGN_OR_RETURN(const std::string text, format.get_string("value"));
      return marks_.mark(text);
    }
    if (type == "any_text") {
      QUIRE_ASSIGN_OR_RETURN(Texts without, texts_at(format, "excludes"));
      without.insert(without.end(), ends.begin(), ends.end());
      return free_text(without);
    }
    if (type == "json_schema") return schema_at(format, "json_schema");
    if (type == "qwen_xml_parameter") return parameters(format, "json_schema");
    if (type == "regex") {
      QUIRE_ASSIGN_OR_RETURN(const std::string pattern, format.get_string("pattern"));
      return included(regex_grammar(pattern, RegexOptions(), builder_.budget()),
                      at(format, "pattern"));
    }
    if (type == "grammar") {
      QUIRE_ASSIGN_OR_RETURN(const std::string text, format.get_string("grammar"));
      return included(grammar_from_text(text, builder_.budget()), at(format, "grammar"));
    }
    if (type == "sequence" || type == "or") {
      QUIRE_ASSIGN_OR_RETURN(const auto parts, read_list(format, "elements", ends, depth + 1));
      return type == "or" ? builder_.choice(parts) : builder_.seq(parts);
    }
    if (type == "optional" || type == "star" || type == "plus") {
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, read_member(format, "content", ends, depth + 1));
      if (type == "optional") return builder_.optional(part);
      return builder_.repeat(part, type == "plus" ? 1 : 0, std::nullopt);
    }
    if (type == "tag") return read_tag(format, depth);
    if (type == "triggered_tags") return read_triggered(format, depth);
    if (type == "tags_with_separator") return read_separated(format, depth);
    return Status::unimplemented(
        fmt::format("{}.type: \"{}\" is no format that is supported", where,
                    printable(type.substr(0, 40))),
        "const_string, json_schema, qwen_xml_parameter, regex, grammar, any_text, sequence, or, "
        "optional, star, plus, tag, triggered_tags and tags_with_separator are");
  }

  Result<ExprId> parameters(const JsonReader& object, std::string_view key) {
    QUIRE_ASSIGN_OR_RETURN(const json::value* schema, its_schema(object, key));
    QUIRE_ASSIGN_OR_RETURN(const ToolDialect* dialect, find_tool_dialect("qwen3_coder"));
    const ToolSet types(
        json::array{json::object{{"function", {{"name", kAnyName}, {"parameters", *schema}}}}});
    return included(argument_grammar(*dialect, CallForm::kNamed, {kAnyName, schema}, types,
                                     vocabulary_, builder_.budget()),
                    at(object, key));
  }

  Result<ExprId> read_tag(const JsonReader& tag, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const std::string begin, tag.get_string("begin"));
    QUIRE_ASSIGN_OR_RETURN(const Texts ends, texts_at(tag, "end"));
    if (ends.empty()) return tag.type_error("end", "a string or several");
    QUIRE_ASSIGN_OR_RETURN(const ExprId content, read_member(tag, "content", ends, depth + 1));
    std::vector<ExprId> last;
    for (const std::string_view end : ends) last.push_back(marks_.mark(end));
    return builder_.seq({marks_.mark(begin), content, builder_.choice(last)});
  }

  Result<std::vector<ExprId>> read_tags(const JsonReader& format, const Texts* triggers,
                                        int depth) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* tags, format.get_items("tags"));
    std::vector<ExprId> ways;
    for (std::size_t i = 0; i < tags->size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(const JsonReader tag,
                             object_at((*tags)[i], fmt::format("{}[{}]", at(format, "tags"), i)));
      QUIRE_ASSIGN_OR_RETURN(const std::string begin, tag.get_string("begin"));
      if (triggers != nullptr) QUIRE_RETURN_IF_ERROR(check_trigger(begin, *triggers, tag));
      QUIRE_ASSIGN_OR_RETURN(const ExprId way, read_tag(tag, depth + 1));
      ways.push_back(way);
    }
    return ways;
  }

  Result<ExprId> read_triggered(const JsonReader& format, int depth) {
    QUIRE_RETURN_IF_ERROR(format.get_items("triggers").status());
    QUIRE_ASSIGN_OR_RETURN(const Texts triggers, texts_at(format, "triggers"));
    QUIRE_ASSIGN_OR_RETURN(const auto tags, read_tags(format, &triggers, depth));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag_at(format, "at_least_one"));
    QUIRE_ASSIGN_OR_RETURN(const bool only_one, flag_at(format, "stop_after_first"));
    QUIRE_ASSIGN_OR_RETURN(Texts marks, texts_at(format, "excludes"));
    marks.insert(marks.end(), triggers.begin(), triggers.end());
    return triggered(marks, builder_.choice(tags), at_least_one, only_one);
  }

  Result<ExprId> read_separated(const JsonReader& format, int depth) {
    QUIRE_ASSIGN_OR_RETURN(const auto tags, read_tags(format, nullptr, depth));
    QUIRE_ASSIGN_OR_RETURN(const std::string separator, format.get_string("separator"));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag_at(format, "at_least_one"));
    QUIRE_ASSIGN_OR_RETURN(const bool only_one, flag_at(format, "stop_after_first"));
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
