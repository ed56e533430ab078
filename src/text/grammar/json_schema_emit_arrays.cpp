#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "text/grammar/json_schema_emit.h"

namespace quire {
namespace {

// Nested options are part of one rule up to so many items.
constexpr std::size_t kItemsInPlace = 48;

// `contains` and the like of one array.
constexpr std::size_t kMaxCountedDemands = 4;

// What has been seen of an array.
struct ArrayMemory {
  std::int64_t index = 0;  // items, at most as many as matter
  std::array<std::int64_t, kMaxCountedDemands> counts{};
  std::uint32_t used = 0;  // values, for uniqueItems

  auto operator<=>(const ArrayMemory&) const = default;
};

FormulaId item_formula(const ArrayCase& array, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return i < array.prefix.size() ? array.prefix[i] : array.rest;
}

// Items of which nothing has to be remembered: `[a, b, c...]`.
Result<ExprId> plain_items(SchemaEmitter& emitter, const ArrayCase& array) {
  GrammarBuilder& builder = emitter.builder();
  const auto length = static_cast<std::int64_t>(array.prefix.size());
  // From the end: what may stand behind item i, with its comma.
  ExprId behind = builder.empty();
  QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> rest, emitter.value(array.rest));
  const std::int64_t min_rest =
      std::max<std::int64_t>(array.min - std::max<std::int64_t>(length, 1), 0);
  std::optional<std::int64_t> max_rest;
  if (array.max)
    max_rest = std::max<std::int64_t>(*array.max - std::max<std::int64_t>(length, 1), 0);
  if (rest && (!max_rest || *max_rest > 0)) {
    behind = emitter.repeat(builder.seq({emitter.comma(), *rest}), min_rest, max_rest);
  } else if (min_rest > 0) {
    return builder.nothing();
  }
  const std::int64_t named = std::max<std::int64_t>(length, 1);
  for (std::int64_t i = named - 1; i >= 0; --i) {
    if (array.max && i >= *array.max) {
      behind = builder.empty();
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> item, emitter.value(item_formula(array, i)));
    ExprId with = builder.nothing();
    if (item && i == 0) with = builder.seq({*item, behind});
    if (item && i > 0) with = builder.seq({emitter.comma(), *item, behind});
    behind = i < array.min ? with : builder.choice({builder.empty(), with});
    if (i > 0 && static_cast<std::size_t>(i) % kItemsInPlace == 0) {
      const RuleId rule = builder.add_rule("items");
      builder.define(rule, behind);
      behind = builder.rule(rule);
    }
  }
  return behind;
}

// Makes the states of an array that has to remember something.
class ArrayMemoryBuilder {
 public:
  ArrayMemoryBuilder(SchemaEmitter& emitter, const ArrayCase& array)
      : emitter_(emitter), array_(array) {}

  Result<ExprId> build();

 private:
  Status find_values();
  Status add_steps(std::size_t from);
  Status add_step(std::size_t from, FormulaId item, ArrayMemory next);
  Status number_of(const ArrayMemory& memory, std::size_t* number);
  bool can_end(const ArrayMemory& memory) const;

  SchemaEmitter& emitter_;
  const ArrayCase& array_;
  std::int64_t last_index_ = 0;    // items beyond are alike
  std::vector<FormulaId> values_;  // uniqueItems: all that an item can be, one by one
  std::vector<json::value> constants_;
  std::map<ArrayMemory, std::size_t> numbers_;
  std::vector<ArrayMemory> memories_;
  std::vector<MemoryState> states_;
};

Status ArrayMemoryBuilder::number_of(const ArrayMemory& memory, std::size_t* number) {
  const auto [place, fresh] = numbers_.try_emplace(memory, memories_.size());
  if (fresh) {
    if (memories_.size() == SchemaEmitter::kMaxMemory) {
      return Status::resource_exhausted(
          fmt::format("JSON Schema: an array that has to remember more than {} states (contains, "
                      "uniqueItems, minItems, maxItems)",
                      SchemaEmitter::kMaxMemory),
          "use smaller limits");
    }
    memories_.push_back(memory);
  }
  *number = place->second;
  return {};
}

bool ArrayMemoryBuilder::can_end(const ArrayMemory& memory) const {
  if (memory.index < array_.min) return false;
  for (std::size_t i = 0; i < array_.counted.size(); ++i) {
    if (memory.counts[i] < array_.counted[i].min) return false;
  }
  return true;
}

Status ArrayMemoryBuilder::add_step(std::size_t from, FormulaId item, ArrayMemory next) {
  QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> expr, emitter_.value(item));
  if (!expr) return {};
  MemoryStep step;
  step.expr = *expr;
  QUIRE_RETURN_IF_ERROR(number_of(next, &step.to));
  states_[from].steps.push_back(step);
  return {};
}

// One step for each set of demands that an item can count for.
Status ArrayMemoryBuilder::add_steps(std::size_t from) {
  FormulaTable& formulas = emitter_.space().formulas();
  const ArrayMemory now = memories_[from];
  if (array_.max && now.index >= *array_.max) return {};
  const std::size_t demands = array_.counted.size();
  const std::size_t num_values = array_.unique != nullptr ? values_.size() : 1;
  for (std::size_t v = 0; v < num_values; ++v) {
    if (array_.unique != nullptr && (now.used >> v & 1) != 0) continue;
    for (std::uint32_t set = 0; set < (1U << demands); ++set) {
      ArrayMemory next = now;
      next.index = std::min(now.index + 1, last_index_);
      std::vector<FormulaId> parts = {item_formula(array_, now.index)};
      if (array_.unique != nullptr) {
        parts.push_back(values_[v]);
        next.used |= 1U << v;
      }
      bool possible = true;
      for (std::size_t d = 0; d < demands && possible; ++d) {
        const CountedItems& counted = array_.counted[d];
        const bool counts = (set >> d & 1) != 0;
        const bool seen = now.index >= counted.from;
        const std::int64_t enough = counted.max ? *counted.max : counted.min;
        if (counts) {
          possible = seen && now.counts[d] < enough;
          parts.push_back(counted.item);
          ++next.counts[d];
        } else if (seen && counted.max) {
          parts.push_back(formulas.negation(counted.item));
        }
      }
      if (!possible) continue;
      QUIRE_RETURN_IF_ERROR(add_step(from, formulas.all_of(std::move(parts)), next));
    }
  }
  return {};
}

// For uniqueItems: the values of which the items are, if those are few.
Status ArrayMemoryBuilder::find_values() {
  constexpr std::size_t kMaxStrings = 21;
  SchemaSpace& space = emitter_.space();
  std::vector<FormulaId> items = array_.prefix;
  items.push_back(array_.rest);
  const FormulaId any = space.formulas().any_of(std::move(items));
  QUIRE_ASSIGN_OR_RETURN(const Shape* const shape, space.expand(any));
  const bool few = shape->numbers.is_none() && shape->arrays.empty() && shape->objects.empty() &&
                   shape->strings.kind() == StringSet::Kind::kThese &&
                   shape->strings.texts().size() <= kMaxStrings;
  if (!few) {
    return space.refused(
        *array_.unique, "uniqueItems",
        fmt::format("of items that are not one of at most {} strings, a boolean or null it is not "
                    "supported",
                    kMaxStrings),
        "leave uniqueItems out, or list what the items may be by enum");
  }
  if (shape->null_value) constants_.emplace_back(nullptr);
  if (shape->true_value) constants_.emplace_back(true);
  if (shape->false_value) constants_.emplace_back(false);
  for (const std::string& text : shape->strings.texts()) constants_.emplace_back(text);
  for (const json::value& constant : constants_) {
    values_.push_back(space.formulas().constant(space.keep(constant)));
  }
  return {};
}

Result<ExprId> ArrayMemoryBuilder::build() {
  if (array_.counted.size() > kMaxCountedDemands) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} `contains` of one array", kMaxCountedDemands),
        "use fewer");
  }
  if (array_.unique != nullptr) QUIRE_RETURN_IF_ERROR(find_values());
  last_index_ = std::max(static_cast<std::int64_t>(array_.prefix.size()), array_.min);
  if (array_.max) last_index_ = std::max(last_index_, *array_.max);
  for (const CountedItems& counted : array_.counted) {
    last_index_ = std::max(last_index_, counted.from);
  }
  std::size_t first = 0;
  QUIRE_RETURN_IF_ERROR(number_of(ArrayMemory(), &first));
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    states_.emplace_back();
    states_[i].can_end = can_end(memories_[i]);
    QUIRE_RETURN_IF_ERROR(add_steps(i));
    QUIRE_RETURN_IF_ERROR(emitter_.space().budget().tick(64));
  }
  return emit_memory(emitter_, states_);
}

}  // namespace

Result<ExprId> emit_array(SchemaEmitter& emitter, const ArrayCase& array) {
  GrammarBuilder& builder = emitter.builder();
  const bool unique = array.unique != nullptr && (!array.max || *array.max > 1);
  ExprId items = 0;
  if (unique || !array.counted.empty()) {
    ArrayCase remembered = array;
    if (!unique) remembered.unique = nullptr;
    ArrayMemoryBuilder memory(emitter, remembered);
    QUIRE_ASSIGN_OR_RETURN(items, memory.build());
  } else {
    QUIRE_ASSIGN_OR_RETURN(items, plain_items(emitter, array));
  }
  const ExprId space = emitter.white_space();
  return builder.seq({builder.literal("["), space, items, space, builder.literal("]")});
}

}  // namespace quire
