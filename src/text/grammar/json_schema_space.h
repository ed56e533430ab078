// The schemas of a document, looked into one by one: formulas to shapes. Internal to JSON Schema.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/json_schema.h"
#include "text/grammar/json_schema_document.h"
#include "text/grammar/json_schema_formula.h"
#include "text/grammar/json_schema_shape.h"

namespace quire {

class SchemaSpace final : public EmptyCaseJudge {
 public:
  // Formulas within formulas that are looked into on the way to one; formulas in all.
  static constexpr int kMaxDepth = 160;
  static constexpr std::size_t kMaxFormulas = 40'000;
  // The depth of looking whether something is possible at all.
  static constexpr int kMaxLookahead = 12;

  // Borrows all.
  SchemaSpace(const JsonSchemaDocument& document, const JsonSchemaOptions& options,
              GrammarBudget& budget);

  FormulaId root();
  // The formula of a schema, the same for all that say the same.
  FormulaId schema(ScopedSchema schema);
  FormulaTable& formulas() { return formulas_; }
  GrammarBudget& budget() { return *budget_; }
  const JsonSchemaDocument& document() const { return *document_; }
  const JsonSchemaOptions& options() const { return *options_; }
  ShapeContext context() { return {&formulas_, budget_, this}; }

  // Kept; valid until the space ends.
  Result<const Shape*> expand(FormulaId formula);
  // Whether nothing is of `formula`, as far as a look shows.
  Result<bool> is_empty(FormulaId formula);
  Result<bool> is_empty(const ArrayCase& array) override;
  Result<bool> is_empty(const ObjectCase& object) override;
  std::string place_of(const json::value& value) const override {
    return document_->pointer_to(value);
  }

  // A copy of `value` that lives as long as this, one for equal values.
  const json::value& keep(const json::value& value);

  // What a pattern or a format was found to be, so that each is compiled once; nullptr if unknown.
  const StringSet* known_set(const std::string& name) const {
    const auto found = sets_.find(name);
    return found == sets_.end() ? nullptr : &found->second;
  }
  void keep_set(const std::string& name, const StringSet& set) { sets_.emplace(name, set); }

  // The resources entered on the way to a schema of `scope` in `place`, that one included.
  int enter(int scope, SchemaPlace place);
  const std::vector<int>& resources_of(int scope) const {
    return scopes_[static_cast<std::size_t>(scope)];
  }

  // "JSON Schema: KEYWORD at PLACE: WHY".
  Status refused(const json::value& place, std::string_view keyword, std::string_view why,
                 std::string_view remedy) const;
  Status invalid(const json::value& place, std::string_view keyword, std::string_view why) const;

 private:
  enum class State : std::uint8_t { kNew, kBusy, kDone };

  Result<Shape> make(FormulaId formula);

  const JsonSchemaDocument* document_;
  const JsonSchemaOptions* options_;
  GrammarBudget* budget_;
  FormulaTable formulas_;
  std::vector<State> states_;
  std::vector<int> busy_since_;  // lookahead_ when a formula became busy
  std::vector<std::unique_ptr<const Shape>> shapes_;
  std::vector<std::vector<int>> scopes_;
  std::map<std::vector<int>, int> scope_numbers_;
  std::deque<json::value> kept_;
  std::map<std::string, StringSet> sets_;
  int depth_ = 0;
  int lookahead_ = 0;
};

// A schema object while its keywords are read.
struct SchemaContext {
  // `schema` is no boolean.
  static SchemaContext of(SchemaSpace& space, ScopedSchema schema) {
    const SchemaPlace place = schema.place;
    return {&space, place, place.value->if_object(), space.document().draft(place),
            space.enter(schema.scope, place)};
  }

  SchemaSpace* space = nullptr;
  SchemaPlace place;
  const json::object* object = nullptr;
  SchemaDraft draft = SchemaDraft::kOpen;
  int scope = 0;  // of its subschemas

  // nullptr if absent.
  const json::value* find(std::string_view key) const { return object->if_contains(key); }
  bool since(SchemaDraft first) const { return draft >= first; }
  bool until(SchemaDraft last) const { return draft <= last || draft == SchemaDraft::kOpen; }
  // Up to draft 7 what stands beside $ref has no meaning.
  bool ref_alone() const { return draft <= SchemaDraft::kDraft7 && find("$ref") != nullptr; }
  Result<FormulaId> subschema(std::string_view keyword, const json::value& value) const;
  // The list of schemas that `value` is: not empty.
  Result<std::vector<FormulaId>> subschemas(std::string_view keyword,
                                            const json::value& value) const;
  // A natural number.
  Result<std::optional<std::int64_t>> count(std::string_view keyword) const;
};

// What the keywords of one object say, without those that apply other schemas to the same value
// (json_schema_keywords.cpp; arrays and objects in json_schema_containers.cpp).
Result<Shape> shape_of_keywords(const SchemaContext& schema);
Result<Shape> shape_of_constant(const json::value& value, SchemaSpace& space);
// A regular expression of ECMA-262, found anywhere in a string; errors name `keyword`.
Result<StringSet> schema_pattern(const SchemaContext& schema, std::string_view keyword,
                                 const json::value& place, std::string_view pattern);
Result<ArrayCase> array_keywords(const SchemaContext& schema);
Result<ObjectCase> object_keywords(const SchemaContext& schema);
// And with those: $ref, allOf, anyOf, oneOf, not, if, dependencies (json_schema_applicators.cpp).
Result<Shape> shape_of_schema(const SchemaContext& schema);

// What $ref and its kin refer to.
Result<std::vector<FormulaId>> referenced_schemas(const SchemaContext& schema);
// Whether it has unevaluatedItems or unevaluatedProperties, and what it says then
// (json_schema_unevaluated.cpp).
bool has_unevaluated(const SchemaContext& schema);
Result<Shape> shape_with_unevaluated(const SchemaContext& schema);

// A schema of `dependencies` or `dependentSchemas`, or the names of `dependentRequired`.
struct SchemaDependency {
  std::string name;
  FormulaId schema = kTrueFormula;
  std::vector<std::string> required;
};
Result<std::vector<SchemaDependency>> schema_dependencies(const SchemaContext& schema);

}  // namespace quire
