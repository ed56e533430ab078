// unevaluatedProperties and unevaluatedItems: what no subschema that is satisfied has looked at.
//
// A schema with one of them is read as alternatives: each says which of its subschemas are
// satisfied, and with that which members and items those have looked at. In each alternative the
// rest is known.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "text/grammar/json_schema_space.h"

namespace quire {
namespace {

constexpr std::int64_t kAllItems = std::numeric_limits<std::int64_t>::max();

// Values that satisfy the same subschemas.
struct Alternative {
  Shape shape = Shape::all();
  StringSet names = StringSet::none();  // of the members that were looked at
  std::int64_t items = 0;               // looked at from the first on
  std::vector<FormulaId> contained;     // items of these were looked at as well
};
using Alternatives = std::vector<Alternative>;

class AlternativesReader {
 public:
  explicit AlternativesReader(SchemaSpace& space) : space_(space) {}

  Result<Alternatives> read(const SchemaContext& schema);

 private:
  static constexpr std::size_t kMaxAlternatives = 256;
  static constexpr int kMaxDepth = 64;

  Result<Alternatives> of(FormulaId formula);
  // Those of both; those of `list` of which `formula` is not.
  Result<Alternatives> both(const Alternatives& a, const Alternatives& b);
  Result<Alternatives> without(const Alternatives& list, FormulaId formula);
  Status append(Alternatives& to, Alternatives from);

  Result<Alternative> own(const SchemaContext& schema);
  Status meet(Alternatives& list, FormulaId formula);
  Status any_of(Alternatives& list, const std::vector<FormulaId>& parts);
  Status one_of(Alternatives& list, const std::vector<FormulaId>& parts);
  Status conditional(const SchemaContext& schema, Alternatives& list);
  Status dependencies(const SchemaContext& schema, Alternatives& list);
  Status unevaluated(const SchemaContext& schema, Alternatives& list);

  SchemaSpace& space_;
  int depth_ = 0;
};

Status AlternativesReader::append(Alternatives& to, Alternatives from) {
  for (Alternative& one : from) {
    if (one.shape.is_none()) continue;
    if (to.size() == kMaxAlternatives) {
      return Status::resource_exhausted(
          fmt::format("JSON Schema: more than {} ways in which the subschemas beside "
                      "unevaluatedProperties or unevaluatedItems can hold",
                      kMaxAlternatives),
          "use fewer");
    }
    to.push_back(std::move(one));
  }
  return {};
}

Result<Alternatives> AlternativesReader::both(const Alternatives& a, const Alternatives& b) {
  Alternatives list;
  for (const Alternative& left : a) {
    for (const Alternative& right : b) {
      Alternative one;
      QUIRE_ASSIGN_OR_RETURN(one.shape, intersect(left.shape, right.shape, space_.context()));
      QUIRE_ASSIGN_OR_RETURN(one.names, unite(left.names, right.names, space_.budget()));
      one.items = std::max(left.items, right.items);
      one.contained = left.contained;
      one.contained.insert(one.contained.end(), right.contained.begin(), right.contained.end());
      Alternatives made;
      made.push_back(std::move(one));
      QUIRE_RETURN_IF_ERROR(append(list, std::move(made)));
    }
  }
  return list;
}

Result<Alternatives> AlternativesReader::without(const Alternatives& list, FormulaId formula) {
  QUIRE_ASSIGN_OR_RETURN(const Shape* const denied, space_.expand(formula));
  Alternatives left = list;
  for (Alternative& one : left) {
    QUIRE_ASSIGN_OR_RETURN(one.shape, difference(one.shape, *denied, space_.context()));
  }
  std::erase_if(left, [](const Alternative& one) { return one.shape.is_none(); });
  return left;
}

Result<Alternatives> AlternativesReader::of(FormulaId formula) {
  if (formula == kFalseFormula) return Alternatives();
  if (formula == kTrueFormula) return Alternatives(1);
  if (depth_ == kMaxDepth) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} schemas within one another beside "
                    "unevaluatedProperties or unevaluatedItems",
                    kMaxDepth),
        "use fewer steps of $ref and allOf");
  }
  ++depth_;
  Result<Alternatives> list = read(SchemaContext::of(space_, space_.formulas()[formula].schema));
  --depth_;
  return list;
}

Status AlternativesReader::meet(Alternatives& list, FormulaId formula) {
  QUIRE_ASSIGN_OR_RETURN(const Alternatives others, of(formula));
  QUIRE_ASSIGN_OR_RETURN(list, both(list, others));
  return {};
}

Status AlternativesReader::any_of(Alternatives& list, const std::vector<FormulaId>& parts) {
  Alternatives none = list;  // of the parts so far none is satisfied
  Alternatives some;
  for (const FormulaId part : parts) {
    QUIRE_ASSIGN_OR_RETURN(const Alternatives others, of(part));
    QUIRE_ASSIGN_OR_RETURN(Alternatives next, both(some, others));
    QUIRE_ASSIGN_OR_RETURN(Alternatives begun, both(none, others));
    QUIRE_ASSIGN_OR_RETURN(Alternatives kept, without(some, part));
    QUIRE_RETURN_IF_ERROR(append(next, std::move(begun)));
    QUIRE_RETURN_IF_ERROR(append(next, std::move(kept)));
    QUIRE_ASSIGN_OR_RETURN(none, without(none, part));
    some = std::move(next);
  }
  list = std::move(some);
  return {};
}

Status AlternativesReader::one_of(Alternatives& list, const std::vector<FormulaId>& parts) {
  Alternatives one;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const Alternatives chosen, of(parts[i]));
    QUIRE_ASSIGN_OR_RETURN(Alternatives met, both(list, chosen));
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (k == i) continue;
      QUIRE_ASSIGN_OR_RETURN(met, without(met, parts[k]));
    }
    QUIRE_RETURN_IF_ERROR(append(one, std::move(met)));
  }
  list = std::move(one);
  return {};
}

Status AlternativesReader::conditional(const SchemaContext& schema, Alternatives& list) {
  const json::value* condition = schema.find("if");
  if (condition == nullptr || !schema.since(SchemaDraft::kDraft7)) return {};
  QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema.subschema("if", *condition));
  Alternatives holds = list;
  QUIRE_RETURN_IF_ERROR(meet(holds, formula));
  QUIRE_ASSIGN_OR_RETURN(Alternatives fails, without(list, formula));
  for (const bool positive : {true, false}) {
    const std::string_view keyword = positive ? "then" : "else";
    const json::value* value = schema.find(keyword);
    if (value == nullptr) continue;
    QUIRE_ASSIGN_OR_RETURN(const FormulaId follows, schema.subschema(keyword, *value));
    QUIRE_RETURN_IF_ERROR(meet(positive ? holds : fails, follows));
  }
  list = std::move(holds);
  return append(list, std::move(fails));
}

Status AlternativesReader::dependencies(const SchemaContext& schema, Alternatives& list) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SchemaDependency> all, schema_dependencies(schema));
  for (const SchemaDependency& dependency : all) {
    Alternative absent;
    Alternative present;
    absent.shape.objects.front().named.push_back({dependency.name, kFalseFormula, false, 0});
    present.shape = Shape::none();
    present.shape.objects.resize(1);
    present.shape.objects.front().named.push_back({dependency.name, kTrueFormula, true, 0});
    QUIRE_ASSIGN_OR_RETURN(Alternatives without_it, both(list, Alternatives{absent}));
    QUIRE_ASSIGN_OR_RETURN(Alternatives with, both(list, Alternatives{present}));
    QUIRE_RETURN_IF_ERROR(meet(with, dependency.schema));
    for (const std::string& name : dependency.required) {
      Alternative wanted;
      wanted.shape.objects.front().named.push_back({name, kTrueFormula, true, 0});
      QUIRE_ASSIGN_OR_RETURN(with, both(with, Alternatives{wanted}));
    }
    list = std::move(without_it);
    QUIRE_RETURN_IF_ERROR(append(list, std::move(with)));
  }
  return {};
}

// What the keywords of one object look at.
Result<Alternative> AlternativesReader::own(const SchemaContext& schema) {
  Alternative own;
  QUIRE_ASSIGN_OR_RETURN(own.shape, shape_of_keywords(schema));
  const json::value* properties = schema.find("properties");
  if (properties != nullptr && properties->is_object()) {
    std::vector<std::string> names;
    for (const auto& entry : properties->get_object()) names.emplace_back(entry.key());
    own.names = StringSet::these(std::move(names));
  }
  const json::value* patterns = schema.find("patternProperties");
  if (patterns != nullptr && patterns->is_object()) {
    for (const auto& entry : patterns->get_object()) {
      QUIRE_ASSIGN_OR_RETURN(const StringSet matching, schema_pattern(schema, "patternProperties",
                                                                      entry.value(), entry.key()));
      QUIRE_ASSIGN_OR_RETURN(own.names, unite(own.names, matching, space_.budget()));
    }
  }
  if (schema.find("additionalProperties") != nullptr) own.names = StringSet::all();
  if (!own.shape.arrays.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const ArrayCase array, array_keywords(schema));
    own.items = static_cast<std::int64_t>(array.prefix.size());
  }
  const json::value* items = schema.find("items");
  if (items != nullptr && (!items->is_array() || schema.find("additionalItems") != nullptr)) {
    own.items = kAllItems;
  }
  const json::value* contains = schema.find("contains");
  if (contains != nullptr && schema.since(SchemaDraft::k2020)) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema.subschema("contains", *contains));
    own.contained.push_back(formula);
  }
  return own;
}

Status AlternativesReader::unevaluated(const SchemaContext& schema, Alternatives& list) {
  const json::value* members = schema.find("unevaluatedProperties");
  const json::value* items = schema.find("unevaluatedItems");
  for (Alternative& one : list) {
    Shape rest = Shape::all();
    if (members != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const FormulaId value,
                             schema.subschema("unevaluatedProperties", *members));
      QUIRE_ASSIGN_OR_RETURN(StringSet names, complement(one.names, space_.budget()));
      if (!names.is_none() && value != kTrueFormula) {
        rest.objects.front().each.push_back({std::move(names), value});
      }
      one.names = StringSet::all();
    }
    if (items != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const FormulaId value, schema.subschema("unevaluatedItems", *items));
      // Many more items than this are refused where they would be listed.
      constexpr std::int64_t kMaxListed = 1000;
      if (one.items < kMaxListed) {
        std::vector<FormulaId> allowed = one.contained;
        allowed.push_back(value);
        ArrayCase& array = rest.arrays.front();
        array.prefix.assign(static_cast<std::size_t>(one.items), kTrueFormula);
        array.rest = space_.formulas().any_of(std::move(allowed));
      } else if (one.items != kAllItems) {
        return space_.refused(*items, "unevaluatedItems", "more than 1000 items are listed",
                              "list fewer");
      }
      one.items = kAllItems;
    }
    QUIRE_ASSIGN_OR_RETURN(one.shape, intersect(one.shape, rest, space_.context()));
  }
  std::erase_if(list, [](const Alternative& one) { return one.shape.is_none(); });
  return {};
}

Result<Alternatives> AlternativesReader::read(const SchemaContext& schema) {
  Alternatives list(1);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> targets, referenced_schemas(schema));
  if (schema.ref_alone()) {
    for (const FormulaId target : targets) QUIRE_RETURN_IF_ERROR(meet(list, target));
    return list;
  }
  QUIRE_ASSIGN_OR_RETURN(list.front(), own(schema));
  for (const FormulaId target : targets) QUIRE_RETURN_IF_ERROR(meet(list, target));
  if (const json::value* all = schema.find("allOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema.subschemas("allOf", *all));
    for (const FormulaId part : parts) QUIRE_RETURN_IF_ERROR(meet(list, part));
  }
  if (const json::value* any = schema.find("anyOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema.subschemas("anyOf", *any));
    QUIRE_RETURN_IF_ERROR(any_of(list, parts));
  }
  if (const json::value* one = schema.find("oneOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema.subschemas("oneOf", *one));
    QUIRE_RETURN_IF_ERROR(one_of(list, parts));
  }
  QUIRE_RETURN_IF_ERROR(conditional(schema, list));
  QUIRE_RETURN_IF_ERROR(dependencies(schema, list));
  if (const json::value* denied = schema.find("not")) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema.subschema("not", *denied));
    QUIRE_ASSIGN_OR_RETURN(list, without(list, formula));
  }
  if (has_unevaluated(schema)) QUIRE_RETURN_IF_ERROR(unevaluated(schema, list));
  return list;
}

}  // namespace

bool has_unevaluated(const SchemaContext& schema) {
  return schema.since(SchemaDraft::k2019) && (schema.find("unevaluatedProperties") != nullptr ||
                                              schema.find("unevaluatedItems") != nullptr);
}

Result<Shape> shape_with_unevaluated(const SchemaContext& schema) {
  AlternativesReader reader(*schema.space);
  QUIRE_ASSIGN_OR_RETURN(Alternatives list, reader.read(schema));
  Shape shape = Shape::none();
  for (Alternative& one : list) {
    QUIRE_ASSIGN_OR_RETURN(shape,
                           unite(std::move(shape), std::move(one.shape), schema.space->context()));
  }
  return shape;
}

}  // namespace quire
