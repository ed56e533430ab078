#include "text/grammar/json_schema_emit.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/grammar/fixed_dfa.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

// Repeated up to so often, something is part of the rule that has it.
constexpr std::int64_t kRepeatedInPlace = 32;

const Dfa& default_white_space() {
  static const Dfa dfa = fixed_dfa([](GrammarBudget& budget) {
    return regex_to_dfa(fmt::format("(\\r?\\n)?[ \\t]{{0,{}}}", JsonSchemaOptions::kMaxBlanks),
                        RegexOptions(), budget);
  });
  return dfa;
}

}  // namespace

Status SchemaEmitter::prepare() {
  const JsonSchemaOptions& options = space_->options();
  if (options.disable_any_whitespace) {
    white_space_ = builder_->empty();
  } else {
    Dfa blank = default_white_space();
    if (options.whitespace_pattern) {
      QUIRE_ASSIGN_OR_RETURN(
          blank, regex_to_dfa(*options.whitespace_pattern, RegexOptions(), space_->budget()));
    }
    const RuleId rule = builder_->add_rule("white space");
    builder_->define(rule, builder_->regular(std::move(blank)));
    white_space_ = builder_->rule(rule);
  }
  comma_ = builder_->seq({white_space_, builder_->literal(","), white_space_});
  colon_ = builder_->seq({white_space_, builder_->literal(":"), white_space_});
  return prepare_strings();
}

Result<Grammar> SchemaEmitter::emit(FormulaId formula) {
  QUIRE_RETURN_IF_ERROR(prepare());
  QUIRE_ASSIGN_OR_RETURN(const std::optional<ExprId> root, value(formula));
  if (!root) {
    return Status::invalid_argument("JSON Schema: no value is valid",
                                    "correct what contradicts itself in the schema");
  }
  return finish(*root);
}

Result<Grammar> SchemaEmitter::emit_objects(FormulaId formula, OuterObject* outer) {
  QUIRE_RETURN_IF_ERROR(prepare());
  QUIRE_ASSIGN_OR_RETURN(const Shape* const shape, space_->expand(formula));
  outer_ = outer;
  std::vector<ExprId> ways;
  for (const ObjectCase& object : shape->objects) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId way, emit_object(*this, object));
    ways.push_back(way);
  }
  outer_ = nullptr;
  return finish(builder_->choice(ways));
}

Result<Grammar> SchemaEmitter::finish(ExprId root) {
  const RuleId rule = builder_->add_rule("schema");
  builder_->define(rule, root);
  while (!open_.empty()) {
    const auto [next, its_rule] = open_.back();
    open_.pop_back();
    QUIRE_RETURN_IF_ERROR(define(next, its_rule));
  }
  return builder_->build(rule);
}

Result<std::optional<ExprId>> SchemaEmitter::value(FormulaId formula) {
  QUIRE_ASSIGN_OR_RETURN(const bool empty, space_->is_empty(formula));
  if (empty) return std::optional<ExprId>();
  const auto found = rules_.find(formula);
  if (found != rules_.end()) return std::optional(builder_->rule(found->second));
  const RuleId rule = builder_->add_rule("value");
  rules_.emplace(formula, rule);
  open_.emplace_back(formula, rule);
  return std::optional(builder_->rule(rule));
}

Status SchemaEmitter::define(FormulaId formula, RuleId rule) {
  QUIRE_RETURN_IF_ERROR(space_->budget().tick(64));
  QUIRE_ASSIGN_OR_RETURN(const Shape* const kept, space_->expand(formula));
  QUIRE_ASSIGN_OR_RETURN(const ExprId body, shape(*kept));
  builder_->define(rule, body);
  return {};
}

Result<ExprId> SchemaEmitter::number(const NumberSet& numbers) {
  for (const auto& [set, expr] : numbers_) {
    if (set == numbers) return expr;
  }
  QUIRE_ASSIGN_OR_RETURN(Dfa language, numbers.language(space_->budget()));
  numbers_.emplace_back(numbers, builder_->regular(std::move(language)));
  return numbers_.back().second;
}

Result<ExprId> SchemaEmitter::shape(const Shape& shape) {
  std::vector<ExprId> choices;
  const bool python = spelling_.strings == ValueSpelling::Strings::kPython;
  const auto word = [&](bool possible, std::string_view json, std::string_view of_python) {
    if (possible) choices.push_back(builder_->literal(python ? of_python : json));
  };
  word(shape.null_value, "null", "None");
  // Gemma's templates write it as Python does.
  const bool marked = spelling_.strings == ValueSpelling::Strings::kMarked;
  if (marked && shape.null_value) choices.push_back(builder_->literal("None"));
  word(shape.true_value, "true", "True");
  word(shape.false_value, "false", "False");
  if (!shape.numbers.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId numbers, number(shape.numbers));
    choices.push_back(numbers);
  }
  if (!shape.strings.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId strings, string(shape.strings));
    choices.push_back(strings);
  }
  for (const ArrayCase& array : shape.arrays) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emit_array(*this, array));
    choices.push_back(expr);
  }
  for (const ObjectCase& object : shape.objects) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emit_object(*this, object));
    choices.push_back(expr);
  }
  return builder_->choice(choices);
}

ExprId SchemaEmitter::repeat(ExprId part, std::int64_t min, std::optional<std::int64_t> max) {
  const auto small = [](std::int64_t count) { return static_cast<std::uint32_t>(count); };
  if (max && *max == 0) return builder_->empty();
  if (min <= kRepeatedInPlace && (!max || *max <= kRepeatedInPlace)) {
    return builder_->repeat(part, small(min),
                            max ? std::optional<std::uint32_t>(small(*max)) : std::nullopt);
  }
  const auto [place, fresh] = blocks_.try_emplace(part, 0);
  if (fresh) {
    const RuleId block = builder_->add_rule("many");
    builder_->define(block,
                     builder_->repeat(part, small(kRepeatedInPlace), small(kRepeatedInPlace)));
    place->second = builder_->rule(block);
  }
  const ExprId many = place->second;
  std::vector<ExprId> parts;
  if (min > 0) {
    const std::int64_t blocks = min / kRepeatedInPlace;
    parts.push_back(repeat(many, blocks, blocks));
    parts.push_back(repeat(part, min % kRepeatedInPlace, min % kRepeatedInPlace));
  }
  if (!max) {
    parts.push_back(builder_->repeat(part, 0, std::nullopt));
    return builder_->seq(parts);
  }
  // Up to `left` more: fewer blocks than would fit and any rest, or all blocks and what is left.
  const std::int64_t left = *max - min;
  const std::int64_t blocks = left / kRepeatedInPlace;
  std::vector<ExprId> ways;
  if (blocks > 0) {
    ways.push_back(
        builder_->seq({repeat(many, 0, blocks - 1), repeat(part, 0, kRepeatedInPlace - 1)}));
  }
  ways.push_back(
      builder_->seq({repeat(many, blocks, blocks), repeat(part, 0, left % kRepeatedInPlace)}));
  parts.push_back(builder_->choice(ways));
  return builder_->seq(parts);
}

namespace {

// What leads from one state of a memory to others. Many states have the same steps, whose texts
// are there once: a rule for all that lead from one state to another.
class StepRules {
 public:
  explicit StepRules(GrammarBuilder& builder) : builder_(builder) {}

  // By the state that they lead to.
  std::map<std::size_t, ExprId> of(const MemoryState& state) {
    std::map<std::size_t, std::vector<ExprId>> by_target;
    for (const MemoryStep& step : state.steps) by_target[step.to].push_back(step.expr);
    std::map<std::size_t, ExprId> rules;
    for (auto& [target, exprs] : by_target) rules.emplace(target, one_of(std::move(exprs)));
    return rules;
  }

 private:
  ExprId one_of(std::vector<ExprId> exprs) {
    const auto [place, fresh] = known_.try_emplace(std::move(exprs), 0);
    if (fresh) {
      const RuleId rule = builder_.add_rule("step");
      builder_.define(rule, builder_.choice(place->first));
      place->second = builder_.rule(rule);
    }
    return place->second;
  }

  GrammarBuilder& builder_;
  std::map<std::vector<ExprId>, ExprId> known_;
};

}  // namespace

ExprId emit_memory(SchemaEmitter& emitter, const std::vector<MemoryState>& states) {
  GrammarBuilder& builder = emitter.builder();
  StepRules step_rules(builder);
  std::vector<RuleId> rules;
  rules.reserve(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) rules.push_back(builder.add_rule("more"));
  for (std::size_t i = 0; i < states.size(); ++i) {
    ExprId loop = builder.empty();
    std::vector<ExprId> ways;
    if (states[i].can_end) ways.push_back(builder.empty());
    for (const auto& [target, step] : step_rules.of(states[i])) {
      const ExprId with_comma = builder.seq({emitter.comma(), step});
      if (target == i) {
        loop = builder.repeat(with_comma, 0, std::nullopt);
      } else {
        ways.push_back(builder.seq({with_comma, builder.rule(rules[target])}));
      }
    }
    builder.define(rules[i], builder.seq({loop, builder.choice(ways)}));
  }
  std::vector<ExprId> first;
  if (states.front().can_end) first.push_back(builder.empty());
  for (const auto& [target, step] : step_rules.of(states.front())) {
    first.push_back(builder.seq({step, builder.rule(rules[target])}));
  }
  return builder.choice(first);
}

}  // namespace quire
