// JSON Schema to grammars, byte by byte: what is accepted, what is not, what is refused and how.
// tests/json_schema_data_test.py has the official suite and MaskBench.
#include "text/grammar/json_schema.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_matcher.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const GrammarVocabulary> byte_vocabulary() {
  std::vector<GrammarVocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), "", false});
  }
  tokens.push_back({"", "<end>", true});
  return GrammarVocabulary::create(tokens);
}

Result<std::shared_ptr<const CompiledGrammar>> compile_schema(
    std::string_view schema, const JsonSchemaOptions& options = {}) {
  GrammarLimits limits;
  limits.max_compile_time = std::chrono::seconds(30);  // whatever the machine does besides
  GrammarBudget budget(limits);
  QUIRE_ASSIGN_OR_RETURN(const Grammar grammar, json_schema_grammar(schema, options, budget));
  return compile_grammar(grammar, byte_vocabulary(), limits);
}

class SchemaGrammar {
 public:
  explicit SchemaGrammar(std::string_view schema, const JsonSchemaOptions& options = {}) {
    auto compiled = compile_schema(schema, options);
    EXPECT_TRUE(compiled.ok()) << schema << ": " << compiled.status().to_string();
    if (compiled.ok()) grammar_ = *compiled;
  }
  bool accepts(std::string_view text) const {
    if (grammar_ == nullptr) return false;
    GrammarMatcher matcher(grammar_);
    constexpr std::size_t kPiece = 512;
    for (; text.size() > kPiece; text.remove_prefix(kPiece)) {
      if (!matcher.accept_text(text.substr(0, kPiece))) return false;
    }
    return matcher.accept_text(text) && matcher.can_end();
  }
  std::string forced() const { return GrammarMatcher(grammar_).forced_text(); }

 private:
  std::shared_ptr<const CompiledGrammar> grammar_;
};

Status refusal(std::string_view schema) {
  auto compiled = compile_schema(schema);
  EXPECT_FALSE(compiled.ok()) << schema;
  return compiled.status();
}

TEST(JsonSchema, ObjectsHaveTheirMembers) {
  const SchemaGrammar schema(R"({"type": "object", "required": ["a"], "additionalProperties": false,
                                 "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", null]}}})");
  EXPECT_TRUE(schema.accepts(R"({"a":1})"));
  EXPECT_TRUE(schema.accepts("{\n  \"a\": 1,\n  \"b\": \"x\"\n}"));
  EXPECT_TRUE(schema.accepts(R"({"a":-0,"b":null})"));
  EXPECT_FALSE(schema.accepts(R"({"b":null})"));
  EXPECT_FALSE(schema.accepts(R"({"b":null,"a":1})"));  // not as declared
  EXPECT_FALSE(schema.accepts(R"({"a":1,"c":1})"));
  EXPECT_FALSE(schema.accepts(R"({"a":"1"})"));
  EXPECT_FALSE(schema.accepts(R"({"a":1,"a":1})"));
  EXPECT_FALSE(schema.accepts(R"({"a":1},)"));
}

TEST(JsonSchema, MembersInAnyOrder) {
  JsonSchemaOptions options;
  options.property_order = PropertyOrder::kFree;
  const SchemaGrammar schema(R"({"type": "object", "required": ["a", "b"],
                                 "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})",
                             options);
  EXPECT_TRUE(schema.accepts(R"({"b":2,"c":3,"a":1})"));
  EXPECT_TRUE(schema.accepts(R"({"z":0,"b":2,"y":[],"a":1})"));
  EXPECT_FALSE(schema.accepts(R"({"b":2,"c":3})"));
  EXPECT_FALSE(schema.accepts(R"({"b":2,"b":2,"a":1})"));
  EXPECT_FALSE(schema.accepts(R"({"b":2,"a":2})"));
}

TEST(JsonSchema, NamesListedTwiceAreOneMember) {
  const SchemaGrammar schema(R"({"type": "object", "additionalProperties": {"const": 1},
                                 "dependencies": {"a": ["b", "b", "a"]}, "required": ["a", "a"]})");
  EXPECT_TRUE(schema.accepts(R"({"a":1,"b":1})"));
  EXPECT_FALSE(schema.accepts(R"({"a":1})"));
}

TEST(JsonSchema, XOrderComesFirst) {
  const SchemaGrammar schema(R"({"type": "object", "additionalProperties": false,
      "required": ["a", "b", "c"], "properties": {"c": {"const": 3},
      "a": {"const": 1, "x-order": 1}, "b": {"const": 2, "x-order": 0}}})");
  EXPECT_TRUE(schema.accepts(R"({"b":2,"a":1,"c":3})"));
  EXPECT_FALSE(schema.accepts(R"({"c":3,"a":1,"b":2})"));
}

TEST(JsonSchema, CountedMembersComeOnce) {
  const SchemaGrammar schema(
      R"({"type": "object", "minProperties": 2, "additionalProperties": false,
                                 "patternProperties": {"^[a-f]$": {"type": "integer"}}})");
  EXPECT_TRUE(schema.accepts(R"({"b":1,"f":2})"));
  EXPECT_FALSE(schema.accepts(R"({"f":1,"f":2})"));
  EXPECT_FALSE(schema.accepts(R"({"f":1})"));
}

TEST(JsonSchema, ManyOptionalMembers) {
  std::string properties;
  for (int i = 0; i < 60; ++i) {
    properties += fmt::format("{}\"name{}\": {{\"const\": {}}}", i == 0 ? "" : ", ", i, i);
  }
  const SchemaGrammar schema(fmt::format(
      R"({{"type": "object", "additionalProperties": false, "properties": {{{}}}}})", properties));
  EXPECT_TRUE(schema.accepts("{}"));
  EXPECT_TRUE(schema.accepts(R"({"name0":0,"name13":13,"name24":24,"name59":59})"));
  EXPECT_TRUE(schema.accepts(R"({"name58":58})"));
  EXPECT_FALSE(schema.accepts(R"({"name13":13,"name12":12})"));
  EXPECT_FALSE(schema.accepts(R"({"name13":12})"));
  EXPECT_FALSE(schema.accepts(R"({"name60":60})"));
}

TEST(JsonSchema, ForcedTextIsWhatTheSchemaSays) {
  JsonSchemaOptions options;
  options.disable_any_whitespace = true;
  const SchemaGrammar schema(R"({"type": "object", "required": ["first name"],
      "properties": {"first name": {"type": "string"}}})",
                             options);
  EXPECT_EQ(schema.forced(), R"({"first name":")");
}

TEST(JsonSchema, StringsByLengthPatternAndFormat) {
  const SchemaGrammar length(R"({"type": "string", "minLength": 2, "maxLength": 3})");
  EXPECT_TRUE(length.accepts("\"\xF0\x9F\x98\x80\xC3\xA9\""));
  EXPECT_TRUE(length.accepts(R"("\ud83d\ude00\u00E9")"));
  EXPECT_TRUE(length.accepts(R"("\n\/a")"));
  EXPECT_FALSE(length.accepts(R"("\ud83d\ude00")"));
  EXPECT_FALSE(length.accepts(R"("abcd")"));
  EXPECT_FALSE(length.accepts(R"("\ud83d")"));
  const SchemaGrammar both(R"({"type": "string", "pattern": "^[a-z]+-", "maxLength": 4})");
  EXPECT_TRUE(both.accepts("\"ab-\\u00e9\""));
  // Counted by a rule for each character.
  const SchemaGrammar counted(
      R"({"type": "string", "pattern": "^\\S+( \\S+)*$", "minLength": 3, "maxLength": 300})");
  const std::string most = std::string(150, 'a') + " " + std::string(148, 'b');
  EXPECT_TRUE(counted.accepts("\"" + most + "c\""));
  EXPECT_TRUE(counted.accepts("\"" + most + "\\u00e9\""));
  EXPECT_TRUE(counted.accepts("\"" + most + "\\ud83d\\ude00\""));
  EXPECT_FALSE(counted.accepts("\"" + most + "cc\""));
  EXPECT_FALSE(counted.accepts("\"" + most + "\\u00e9c\""));
  EXPECT_FALSE(counted.accepts("\"" + most + " \""));
  EXPECT_FALSE(counted.accepts("\"ab\""));
  EXPECT_TRUE(counted.accepts("\"a b\""));
  EXPECT_TRUE(SchemaGrammar(R"({"type": "string", "pattern": "^[ab]*$", "minLength": 700})")
                  .accepts("\"" + std::string(700, 'a') + "\""));
  EXPECT_FALSE(SchemaGrammar(R"({"type": "string", "pattern": "^[ab]*$", "minLength": 700})")
                   .accepts("\"" + std::string(699, 'a') + "\""));
  // However many characters come one behind the other, none is deeper than the first.
  EXPECT_TRUE(SchemaGrammar(R"({"type": "string", "pattern": "\\p{Letter}cole"})")
                  .accepts("\"" + std::string(3000, 'x') + "\\u00e9cole\""));
  EXPECT_THAT(refusal(R"({"type": "string", "pattern": "^(..)*$", "minLength": 7, "maxLength": 7})")
                  .message(),
              HasSubstr("no value is valid"));
  EXPECT_TRUE(both.accepts(R"("a-\"\\")"));
  EXPECT_FALSE(both.accepts(R"("abcd-")"));
  EXPECT_FALSE(both.accepts(R"("-a")"));
  const SchemaGrammar regex(R"({"type": "string", "format": "regex"})");
  EXPECT_TRUE(regex.accepts(R"("(?<n>a)\\k<n>")"));
  EXPECT_TRUE(regex.accepts(R"("x|(?<year>\\d{4})-(?:a|b(c))*")"));
  EXPECT_FALSE(regex.accepts(R"("(?<n>a)\\k<m>")"));  // to a group that is not there
  EXPECT_FALSE(regex.accepts(R"("(a)\\k<a>")"));
  const SchemaGrammar date(R"({"type": "string", "format": "date"})");
  EXPECT_TRUE(date.accepts(R"("2024-02-29")"));
  EXPECT_FALSE(date.accepts(R"("2023-02-29")"));
}

TEST(JsonSchema, NotOfAFormatHasNothingValid) {
  const auto without = [](std::string_view format) {
    return SchemaGrammar(fmt::format(R"({{"type": "string", "not": {{"format": "{}"}}}})", format));
  };
  // What the format itself leaves out, so that it ends or has few states, is valid all the same.
  const SchemaGrammar time = without("time");
  EXPECT_FALSE(time.accepts(R"("12:34:56Z")"));
  EXPECT_FALSE(time.accepts(R"("12:34:56.1234567890123456789Z")"));
  EXPECT_FALSE(time.accepts(R"("23:59:60Z")"));
  EXPECT_FALSE(time.accepts(R"("00:06:60+00:07")"));
  EXPECT_FALSE(time.accepts(R"("23:52:60.12345-00:07")"));
  EXPECT_TRUE(time.accepts(R"("12:34:60Z")"));
  EXPECT_TRUE(time.accepts(R"("00:07:60+00:07")"));
  EXPECT_TRUE(time.accepts(R"("12:34:56")"));
  EXPECT_TRUE(time.accepts(R"("é")"));
  const SchemaGrammar date_time = without("date-time");
  EXPECT_FALSE(date_time.accepts(R"("2024-02-29T00:06:60+00:07")"));
  EXPECT_FALSE(date_time.accepts(R"("0000-01-01T00:00:00Z")"));  // valid to some
  EXPECT_TRUE(date_time.accepts(R"("2023-02-29T00:06:00Z")"));
  const SchemaGrammar duration = without("duration");
  EXPECT_FALSE(duration.accepts("\"P" + std::string(91, '1') + "D\""));
  EXPECT_TRUE(duration.accepts(R"("P1S")"));
  EXPECT_FALSE(without("relative-json-pointer").accepts("\"" + std::string(19, '1') + "#\""));
  // No regular language has all regular expressions, and nothing else.
  EXPECT_THAT(
      refusal(R"({"properties": {"a": {"type": "string", "not": {"format": "regex"}}}})").message(),
      HasSubstr("format at #/properties/a/not/format: regex is not supported under not"));
  EXPECT_TRUE(
      SchemaGrammar(R"({"oneOf": [{"type": "string", "format": "regex"}, {"type": "null"}]})")
          .accepts(R"("a*")"));
  const SchemaGrammar names(R"({"type": "object", "propertyNames": {"format": "regex"}})");
  EXPECT_TRUE(names.accepts(R"({"a*": 1})"));
  EXPECT_FALSE(names.accepts(R"({"(": 1})"));
  EXPECT_TRUE(SchemaGrammar(R"({"type": "object", "propertyNames": {"format": "time"}})")
                  .accepts(R"({"12:34:56Z": 1})"));
  // Of a choice that lacks texts of both.
  const SchemaGrammar neither(
      R"({"type": "string", "not": {"anyOf": [{"format": "time"}, {"format": "duration"}]}})");
  EXPECT_FALSE(neither.accepts(R"("00:06:60+00:07")"));
  EXPECT_FALSE(neither.accepts("\"P" + std::string(91, '1') + "D\""));
  EXPECT_TRUE(neither.accepts(R"("x")"));
}

TEST(JsonSchema, EqualSchemasAreOne) {
  const auto states = [](std::string_view schema) {
    return compile_schema(schema).value()->stats().states;
  };
  constexpr std::string_view kLarge =
      R"("enum": ["the first of several values", "the second of them", "and one that is last"]}})";
  const auto two = [&](std::string_view first, std::string_view second) {
    return fmt::format(R"({{"type": "object", "additionalProperties": false, "properties": {{
        "a": {{"type": "object", "properties": {{"b": {{{}, {}}},
        "c": {{"type": "object", "properties": {{"b": {{{}, {}}}}}}})",
                       first, kLarge, second, kLarge);
  };
  const std::size_t apart = states(two(R"("type": "string")", R"("minLength": 1)"));
  EXPECT_LT(states(two(R"("title": "one")", R"("title": "another")")), apart);
  // A property that is called as a remark is none.
  const SchemaGrammar named(R"({"type": "object", "additionalProperties": false, "properties": {
      "a": {"type": "object", "properties": {"title": {"type": "null"}}, "required": ["title"]},
      "b": {"type": "object", "properties": {"title": {"type": "boolean"}}, "required": ["title"]}}})");
  EXPECT_TRUE(named.accepts(R"({"a": {"title": null}, "b": {"title": true}})"));
  EXPECT_FALSE(named.accepts(R"({"a": {"title": null}, "b": {"title": null}})"));
  // Members in another order are others, and so are references of another resource.
  const SchemaGrammar ordered(R"({"type": "object", "properties": {
      "a": {"type": "object", "properties": {"x": {"type": "null"}, "y": {"type": "null"}}},
      "b": {"type": "object", "properties": {"y": {"type": "null"}, "x": {"type": "null"}}}}})");
  EXPECT_TRUE(ordered.accepts(R"({"a": {"x": null, "y": null}, "b": {"y": null, "x": null}})"));
  EXPECT_FALSE(ordered.accepts(R"({"a": {"x": null, "y": null}, "b": {"x": null, "y": null}})"));
  const SchemaGrammar based(R"({"type": "object", "properties": {
      "a": {"$id": "http://a.test/", "properties": {"v": {"$ref": "#/$defs/d"}},
            "$defs": {"d": {"type": "null"}}},
      "b": {"$id": "http://b.test/", "properties": {"v": {"$ref": "#/$defs/d"}},
            "$defs": {"d": {"type": "boolean"}}}}})");
  EXPECT_TRUE(based.accepts(R"({"a": {"v": null}, "b": {"v": true}})"));
  EXPECT_FALSE(based.accepts(R"({"a": {"v": null}, "b": {"v": null}})"));
  // Exactly one of two that are equal is never true.
  EXPECT_THAT(refusal(R"({"oneOf": [{"type": "null", "title": "x"}, {"type": "null"}]})").message(),
              HasSubstr("no value is valid"));
}

TEST(JsonSchema, LongStringsAreCounted) {
  const SchemaGrammar schema(R"({"type": "string", "minLength": 1000, "maxLength": 9000})");
  for (const auto& [size, valid] : std::vector<std::pair<std::size_t, bool>>{
           {999, false}, {1000, true}, {1129, true}, {4000, true}, {9000, true}, {9001, false}}) {
    EXPECT_EQ(schema.accepts('"' + std::string(size, 'x') + '"'), valid) << size;
  }
}

TEST(JsonSchema, NumbersWithinBounds) {
  const SchemaGrammar schema(R"({"type": "number", "minimum": -12.5, "exclusiveMaximum": 103})");
  for (const std::string_view in :
       {"-12.5", "-12.50", "-12.49", "-0", "0", "9", "99.999", "102.9", "100"}) {
    EXPECT_TRUE(schema.accepts(in)) << in;
  }
  for (const std::string_view out :
       {"-12.51", "-13", "103", "103.0", "1000", "01", "1e1", "+1", ".5"}) {
    EXPECT_FALSE(schema.accepts(out)) << out;
  }
  const SchemaGrammar free(R"({"type": "number"})");
  EXPECT_TRUE(free.accepts("1e-07"));
  EXPECT_TRUE(free.accepts("1.7e+300"));
  EXPECT_FALSE(free.accepts("1e999"));
}

TEST(JsonSchema, MultiplesByTheirDigits) {
  const SchemaGrammar seven(R"({"type": "integer", "multipleOf": 7, "minimum": 1})");
  for (int i = 1; i < 300; ++i) EXPECT_EQ(seven.accepts(std::to_string(i)), i % 7 == 0) << i;
  const SchemaGrammar cents(R"({"multipleOf": 0.25})");
  for (const std::string_view in : {"0", "1", "1.25", "-3.5", "2.750"}) {
    EXPECT_TRUE(cents.accepts(in)) << in;
  }
  for (const std::string_view out : {"0.1", "1.255", "2.7"})
    EXPECT_FALSE(cents.accepts(out)) << out;
}

// Combined before the bounds, the period of all divisors together would be more than there may be.
TEST(JsonSchema, MultiplesOfManyDivisorsBetweenBounds) {
  const SchemaGrammar schema(R"({"type": "number", "allOf": [
    {"anyOf": [{"multipleOf": 33}, {"multipleOf": 12}, {"multipleOf": 4}, {"multipleOf": 16}]},
    {"anyOf": [{"multipleOf": 77}, {"multipleOf": 25}, {"multipleOf": 42}, {"multipleOf": 51},
               {"not": {"multipleOf": 6}}]},
    {"anyOf": [{"multipleOf": 101}, {"multipleOf": 102}, {"not": {"multipleOf": 103}}]},
    {"exclusiveMinimum": -300}, {"exclusiveMaximum": 0}]})");
  for (int i = -320; i < 20; ++i) {
    const auto any = [i](std::initializer_list<int> divisors) {
      return std::ranges::any_of(divisors, [i](int divisor) { return i % divisor == 0; });
    };
    const bool valid = any({33, 12, 4, 16}) && (any({77, 25, 42, 51}) || i % 6 != 0) &&
                       (any({101, 102}) || i % 103 != 0) && i > -300 && i < 0;
    EXPECT_EQ(schema.accepts(std::to_string(i)), valid) << i;
  }
}

TEST(JsonSchema, ManyRequiredMembersComeAsPropertiesOrRequiredHasThem) {
  JsonSchemaOptions options;
  options.property_order = PropertyOrder::kFree;
  const std::string names = "abcdefghi";
  const std::string required = "ihgfedcba";
  std::string properties, wanted;
  for (std::size_t i = 0; i < names.size(); ++i) {
    properties += fmt::format(R"({}"{}": {{"const": 1}})", i > 0 ? ", " : "", names[i]);
    wanted += fmt::format(R"({}"{}")", i > 0 ? ", " : "", required[i]);
  }
  const SchemaGrammar schema(
      fmt::format(R"({{"properties": {{{}, "z": {{}}}}, "required": [{}]}})", properties, wanted),
      options);
  const auto object = [](std::string_view order) {
    std::string text;
    for (const char c : order) text += fmt::format(R"({}"{}": 1)", text.empty() ? "" : ", ", c);
    return "{" + text + "}";
  };
  for (const std::string_view in : {"abcdefghi", "ihgfedcba", "zabcdefghi", "ihzgfedcba"}) {
    EXPECT_TRUE(schema.accepts(object(in))) << in;
  }
  for (const std::string_view out : {"abcdefgh", "bacdefghi", "ihgfedcb", "abcdefghii"}) {
    EXPECT_FALSE(schema.accepts(object(out))) << out;
  }
}

TEST(JsonSchema, ArraysByPlaceCountAndContent) {
  const SchemaGrammar tuple(R"({"type": "array", "minItems": 1, "maxItems": 4,
      "prefixItems": [{"const": 1}, {"const": 2}], "items": {"type": "boolean"}})");
  EXPECT_TRUE(tuple.accepts("[1]"));
  EXPECT_TRUE(tuple.accepts("[1,2,true,false]"));
  EXPECT_FALSE(tuple.accepts("[]"));
  EXPECT_FALSE(tuple.accepts("[1,true]"));
  EXPECT_FALSE(tuple.accepts("[1,2,true,true,true]"));
  const SchemaGrammar contains(R"({"type": "array", "items": {"type": "integer"},
      "contains": {"minimum": 5}, "minContains": 2, "maxContains": 3})");
  EXPECT_TRUE(contains.accepts("[1,5,2,6]"));
  EXPECT_FALSE(contains.accepts("[1,5,2]"));
  EXPECT_FALSE(contains.accepts("[5,6,7,8]"));
  const SchemaGrammar unique(
      R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", null]}})");
  EXPECT_TRUE(unique.accepts(R"(["b",null,"a"])"));
  EXPECT_FALSE(unique.accepts(R"(["b","a","b"])"));
}

TEST(JsonSchema, AlternativesAreExact) {
  const SchemaGrammar one(R"({"oneOf": [{"type": "object", "required": ["a"]},
                                        {"type": "object", "required": ["b"]}]})");
  EXPECT_TRUE(one.accepts(R"({"a":1})"));
  EXPECT_TRUE(one.accepts(R"({"b":1})"));
  EXPECT_FALSE(one.accepts(R"({"a":1,"b":1})"));
  EXPECT_FALSE(one.accepts("{}"));
  const SchemaGrammar conditional(
      R"({"type": "object", "properties": {"kind": {"enum": ["n", "s"]}},
      "required": ["kind", "value"], "if": {"properties": {"kind": {"const": "n"}}},
      "then": {"properties": {"value": {"type": "number"}}},
      "else": {"properties": {"value": {"type": "string"}}}})");
  EXPECT_TRUE(conditional.accepts(R"({"kind":"n","value":1})"));
  EXPECT_TRUE(conditional.accepts(R"({"kind":"s","value":"1"})"));
  EXPECT_FALSE(conditional.accepts(R"({"kind":"s","value":1})"));
}

TEST(JsonSchema, RecursionThroughReferences) {
  const SchemaGrammar tree(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
      "required": ["value", "next"], "additionalProperties": false, "properties": {
      "value": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}}}})");
  EXPECT_TRUE(tree.accepts(R"({"value":1,"next":{"value":2,"next":null}})"));
  EXPECT_FALSE(tree.accepts(R"({"value":1,"next":{"value":2}})"));
}

TEST(JsonSchema, AnyObject) {
  GrammarBudget budget;
  const auto grammar = json_object_grammar({}, budget);
  ASSERT_TRUE(grammar.ok()) << grammar.status().to_string();
  const auto compiled = compile_grammar(*grammar, byte_vocabulary());
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  GrammarMatcher matcher(*compiled);
  EXPECT_TRUE(matcher.accept_text(R"({"a": [1, {"b": "c"}], "d": null})"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(GrammarMatcher(*compiled).accept_text("["));
}

TEST(JsonSchema, RefusesByKeywordAndPlace) {
  const Status unique = refusal(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})");
  EXPECT_EQ(unique.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(unique.message(), HasSubstr("uniqueItems at #/properties/a/uniqueItems"));
  const Status pattern = refusal(R"({"properties": {"a/b": {"pattern": "(a)\\1"}}})");
  EXPECT_EQ(pattern.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(pattern.message(), HasSubstr("pattern at #/properties/a~1b"));
  const Status reference = refusal(R"({"$ref": "https://example.com/schema"})");
  EXPECT_EQ(reference.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(reference.message(), HasSubstr("https://example.com/schema"));
  const Status loop = refusal(R"({"allOf": [{"$ref": "#"}]})");
  EXPECT_THAT(loop.message(), HasSubstr("refers to itself"));
  EXPECT_EQ(refusal("false").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal(R"({"type": "strange"})").code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      refusal(R"({"type": "object", "required": ["a"], "properties": {"a": false}})").message(),
      HasSubstr("no value is valid"));
}

TEST(JsonSchema, HostileSchemasEndInANamedError) {
  std::string deep = "true";
  for (int i = 0; i < 300; ++i) deep = R"({"not":)" + deep + "}";
  EXPECT_FALSE(compile_schema(deep).ok());
  std::string parts;
  for (int i = 0; i < 24; ++i) {
    parts += fmt::format(
        R"({}{{"properties": {{"a{}": {{"type": "string"}}, "b{}": {{"minimum": 3}}}}}})",
        i == 0 ? "" : ",", i, i);
  }
  const Status exponential = refusal(R"({"type": "object", "oneOf": [)" + parts + "]}");
  EXPECT_EQ(exponential.code(), StatusCode::kResourceExhausted) << exponential.to_string();
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 3000; ++i)
    chain += fmt::format(R"("d{}": {{"$ref": "#/$defs/d{}"}},)", i, i + 1);
  EXPECT_EQ(refusal(chain + R"("d3000": true}})").code(), StatusCode::kResourceExhausted);
  const std::string large(JsonSchemaOptions::kMaxSchemaBytes + 1, ' ');
  EXPECT_EQ(refusal(large).code(), StatusCode::kResourceExhausted);
  std::string values;
  for (int i = 0; i < 400'000; ++i) values += fmt::format("{}{}", i == 0 ? "" : ",", i % 10);
  EXPECT_EQ(refusal(R"({"enum": [)" + values + "]}").code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
