#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "text/grammar/json_schema_emit.h"

namespace quire {
namespace {

// So many optional members of a row share a rule: what may stand behind each of them is another
// text, which grows with the square of their number.
constexpr std::size_t kMembersInPlace = 12;

// Demands of one object for some member.
constexpr std::size_t kMaxMemberDemands = 12;

struct Named {
  std::string name;
  FormulaId value = kTrueFormula;
  bool required = false;
  std::uint32_t demands = 0;  // of ObjectCase::some, bit by bit, those about this name
};

struct Others {
  StringSet names;
  FormulaId value = kTrueFormula;
  std::uint32_t demands = 0;
};

// An object's members by what is said of them.
struct Members {
  std::vector<Named> named;
  std::vector<Others> others;
  std::vector<FormulaId> demanded;  // for each demand what the value has to be
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  bool impossible = false;
};

// Splits the names that are not listed by `names`; what is in both gets `value` and `demand`.
Status split_others(SchemaSpace& space, const StringSet& names, FormulaId value,
                    std::uint32_t demand, std::vector<Others>& others) {
  constexpr std::size_t kMaxClasses = 64;
  std::vector<Others> parts;
  QUIRE_ASSIGN_OR_RETURN(const StringSet outside, complement(names, space.budget()));
  for (Others& part : others) {
    QUIRE_ASSIGN_OR_RETURN(StringSet inside, intersect(part.names, names, space.budget()));
    if (inside.is_none()) {
      parts.push_back(std::move(part));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(StringSet rest, intersect(part.names, outside, space.budget()));
    const FormulaId both = space.formulas().all_of({part.value, value});
    parts.push_back({std::move(inside), both, part.demands | demand});
    if (!rest.is_none()) parts.push_back({std::move(rest), part.value, part.demands});
  }
  if (parts.size() > kMaxClasses) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: patternProperties that overlap in more than {} ways",
                    kMaxClasses),
        "use fewer patterns");
  }
  others = std::move(parts);
  return {};
}

// Names of a set that has few of them are members like others: each comes once.
Result<bool> list_few(SchemaSpace& space, const Others& others, Members& members) {
  constexpr std::size_t kFewNames = 16;
  if (others.names.kind() != StringSet::Kind::kRegular) return false;
  QUIRE_ASSIGN_OR_RETURN(const Dfa names, others.names.language(space.budget()));
  const auto texts = names.texts(kFewNames);
  if (!texts) return false;
  for (const std::string& name : *texts) {
    members.named.push_back({name, others.value, false, others.demands});
  }
  return true;
}

Result<Members> members_of(SchemaSpace& space, const ObjectCase& object) {
  Members members;
  members.min = object.min;
  members.max = object.max;
  std::vector<NamedMember> named = object.named;
  std::vector<MembersByName> some;
  // Names that only conditions mention are members like others.
  const auto mention = [&named](const StringSet& names) {
    if (names.kind() != StringSet::Kind::kThese && names.kind() != StringSet::Kind::kAllBut) return;
    for (const std::string& name : names.texts()) {
      const auto same = [&name](const NamedMember& member) { return member.name == name; };
      if (std::none_of(named.begin(), named.end(), same))
        named.push_back({name, kTrueFormula, false, 0});
    }
  };
  for (const MembersByName& each : object.each) mention(each.names);
  for (const MembersByName& one : object.some) {
    mention(one.names);
    if (one.names.kind() == StringSet::Kind::kThese && one.names.texts().size() == 1) {
      const std::string& name = one.names.texts().front();
      const auto same = [&name](const NamedMember& member) { return member.name == name; };
      const auto found = std::find_if(named.begin(), named.end(), same);
      found->required = true;
      found->value = space.formulas().all_of({found->value, one.value});
    } else {
      some.push_back(one);
    }
  }
  if (some.size() > kMaxMemberDemands) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} demands for some member of one object (not of "
                    "additionalProperties, patternProperties, propertyNames)",
                    kMaxMemberDemands),
        "use fewer");
  }
  for (const MembersByName& one : some) members.demanded.push_back(one.value);
  std::stable_sort(named.begin(), named.end(),
                   [](const NamedMember& a, const NamedMember& b) { return a.order < b.order; });
  std::vector<std::string> names;
  for (const NamedMember& member : named) {
    names.push_back(member.name);
    Named one{member.name, value_of_member(object, member, space.formulas()), member.required, 0};
    QUIRE_ASSIGN_OR_RETURN(const bool empty, space.is_empty(one.value));
    if (empty && one.required) members.impossible = true;
    if (empty) continue;
    for (std::size_t d = 0; d < some.size(); ++d) {
      if (some[d].names.contains(one.name)) one.demands |= 1U << d;
    }
    members.named.push_back(std::move(one));
  }
  members.others.push_back({StringSet::all_but(std::move(names)), kTrueFormula, 0});
  for (const MembersByName& each : object.each) {
    QUIRE_RETURN_IF_ERROR(split_others(space, each.names, each.value, 0, members.others));
  }
  for (std::size_t d = 0; d < some.size(); ++d) {
    QUIRE_RETURN_IF_ERROR(
        split_others(space, some[d].names, kTrueFormula, 1U << d, members.others));
  }
  std::vector<Others> possible;
  for (Others& others : members.others) {
    QUIRE_ASSIGN_OR_RETURN(const bool empty, space.is_empty(others.value));
    if (empty) continue;
    QUIRE_ASSIGN_OR_RETURN(const bool few, list_few(space, others, members));
    if (!few) possible.push_back(std::move(others));
  }
  members.others = std::move(possible);
  return members;
}

// Members in the order of their list, with nothing else to remember.
class RowOfMembers {
 public:
  RowOfMembers(SchemaEmitter& emitter, const Members& members)
      : emitter_(emitter), builder_(emitter.builder()), members_(members) {}

  Result<ExprId> build(bool may_be_empty);

 private:
  // What may stand behind another member, from member `from` of the list on.
  ExprId behind(std::size_t from);

  SchemaEmitter& emitter_;
  GrammarBuilder& builder_;
  const Members& members_;
  std::vector<ExprId> exprs_;
  std::vector<ExprId> with_comma_;     // left out where it may be
  std::map<std::size_t, ExprId> cut_;  // rules that begin there
  ExprId other_ = 0;
  ExprId others_behind_ = 0;
};

ExprId RowOfMembers::behind(std::size_t from) {
  std::vector<ExprId> parts;
  for (std::size_t i = from; i < exprs_.size(); ++i) {
    const auto rule = cut_.find(i);
    if (rule != cut_.end() && i != from) {
      parts.push_back(rule->second);
      return builder_.seq(parts);
    }
    parts.push_back(with_comma_[i]);
  }
  parts.push_back(others_behind_);
  return builder_.seq(parts);
}

Result<ExprId> RowOfMembers::build(bool may_be_empty) {
  for (const Named& named : members_.named) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emitter_.member(named.name, named.value));
    exprs_.push_back(expr);
    with_comma_.push_back(emitter_.behind_comma(expr, !named.required));
  }
  std::vector<ExprId> others;
  for (const Others& other : members_.others) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emitter_.member(other.names, other.value));
    others.push_back(expr);
  }
  const RuleId other = builder_.add_rule("other member");
  builder_.define(other, builder_.choice(others));
  other_ = builder_.rule(other);
  others_behind_ = builder_.repeat(builder_.seq({emitter_.comma(), other_}), 0, std::nullopt);
  std::size_t optional = 0;
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i < exprs_.size(); ++i) {
    if (!members_.named[i].required) ++optional;
    if (optional != kMembersInPlace) continue;
    optional = 0;
    cuts.push_back(i + 1);
  }
  for (auto at = cuts.rbegin(); at != cuts.rend(); ++at) {
    const RuleId rule = builder_.add_rule("members");
    builder_.define(rule, behind(*at));
    cut_.emplace(*at, builder_.rule(rule));
  }
  // The first member is any up to the first that has to be there.
  std::vector<ExprId> ways;
  bool required = false;
  for (std::size_t i = 0; i < exprs_.size() && !required; ++i) {
    const auto rule = cut_.find(i + 1);
    ways.push_back(builder_.seq({exprs_[i], rule == cut_.end() ? behind(i + 1) : rule->second}));
    required = members_.named[i].required;
  }
  if (!required) {
    ways.push_back(builder_.seq({other_, others_behind_}));
    if (may_be_empty) ways.push_back(builder_.empty());
  }
  return builder_.choice(ways);
}

// What has been seen of an object.
struct ObjectMemory {
  std::uint32_t place = 0;  // kDeclared: the next member of the list; kFree: names seen, bit by bit
  std::int64_t count = 0;   // members, at most as many as matter
  std::uint32_t met = 0;    // demands

  auto operator<=>(const ObjectMemory&) const = default;
};

class ObjectMemoryBuilder {
 public:
  ObjectMemoryBuilder(SchemaEmitter& emitter, const Members& members)
      : emitter_(emitter), members_(members) {}

  Result<ExprId> build();

 private:
  // What the order says of a member: whether it may come, and the place behind it.
  struct Move {
    bool possible = false;
    std::uint32_t place = 0;
  };
  void choose_order();
  Move move_to(std::uint32_t place, std::size_t member) const;
  Move move_to_others(std::uint32_t place) const;
  bool all_there(std::uint32_t place) const;
  Status number_of(const ObjectMemory& memory, std::size_t* number);
  Status add_steps(std::size_t from);
  // `index`: of a name of the list, or behind those of a kind of others.
  Result<ExprId> member(std::size_t index, FormulaId value);
  Status add_member(std::size_t from, std::size_t index, Move move);

  SchemaEmitter& emitter_;
  const Members& members_;
  bool free_ = false;
  bool in_row_ = false;    // free, but the required ones in their own order
  std::vector<int> bits_;  // of a name in `place`, or its number among the required; -1: forgotten
  int num_bits_ = 0;
  std::int64_t enough_ = 0;  // members to count
  std::map<ObjectMemory, std::size_t> numbers_;
  std::vector<ObjectMemory> memories_;
  std::vector<MemoryState> states_;
  std::map<std::pair<std::size_t, FormulaId>, ExprId> exprs_;
};

void ObjectMemoryBuilder::choose_order() {
  free_ = emitter_.space().options().property_order == PropertyOrder::kFree;
  if (!free_) return;
  const std::size_t listed = members_.named.size();
  const auto required =
      static_cast<std::size_t>(std::count_if(members_.named.begin(), members_.named.end(),
                                             [](const Named& named) { return named.required; }));
  const auto steps = [&](std::size_t bits) { return (std::size_t{1} << bits) * listed; };
  const bool all =
      listed <= JsonSchemaOptions::kMaxFreeMembers && emitter_.take_free_steps(steps(listed));
  if (!all && members_.min > 1) {
    free_ = false;  // where members are counted, none may come twice
    return;
  }
  in_row_ = !all && (required > JsonSchemaOptions::kMaxFreeRequired ||
                     !emitter_.take_free_steps(steps(required)));
  for (const Named& named : members_.named) {
    bits_.push_back(all || named.required ? num_bits_++ : -1);
  }
}

ObjectMemoryBuilder::Move ObjectMemoryBuilder::move_to(std::uint32_t place,
                                                       std::size_t member) const {
  if (free_) {
    const int bit = bits_[member];
    if (bit < 0) return {true, place};
    if (in_row_) return {static_cast<std::uint32_t>(bit) == place, place + 1};
    return {(place >> bit & 1) == 0, place | 1U << bit};
  }
  bool possible = member >= place;
  for (std::size_t i = place; i < member && possible; ++i) possible = !members_.named[i].required;
  return {possible, static_cast<std::uint32_t>(member) + 1};
}

bool ObjectMemoryBuilder::all_there(std::uint32_t place) const {
  if (free_ && in_row_) return place == static_cast<std::uint32_t>(num_bits_);
  for (std::size_t i = 0; i < members_.named.size(); ++i) {
    if (!members_.named[i].required) continue;
    if (free_ ? (place >> bits_[i] & 1) == 0 : i >= place) return false;
  }
  return true;
}

ObjectMemoryBuilder::Move ObjectMemoryBuilder::move_to_others(std::uint32_t place) const {
  if (free_) return {true, place};
  return {all_there(place), static_cast<std::uint32_t>(members_.named.size())};
}

Status ObjectMemoryBuilder::number_of(const ObjectMemory& memory, std::size_t* number) {
  const auto [place, fresh] = numbers_.try_emplace(memory, memories_.size());
  if (fresh) {
    if (memories_.size() == SchemaEmitter::kMaxMemory) {
      return Status::resource_exhausted(
          fmt::format("JSON Schema: an object that has to remember more than {} states "
                      "(minProperties, maxProperties, not of additionalProperties)",
                      SchemaEmitter::kMaxMemory),
          "use smaller limits");
    }
    memories_.push_back(memory);
  }
  *number = place->second;
  return {};
}

Result<ExprId> ObjectMemoryBuilder::member(std::size_t index, FormulaId value) {
  const auto found = exprs_.find({index, value});
  if (found != exprs_.end()) return found->second;
  const std::size_t listed = members_.named.size();
  QUIRE_ASSIGN_OR_RETURN(const ExprId expr,
                         index < listed
                             ? emitter_.member(members_.named[index].name, value)
                             : emitter_.member(members_.others[index - listed].names, value));
  exprs_.emplace(std::pair(index, value), expr);
  return expr;
}

Status ObjectMemoryBuilder::add_member(std::size_t from, std::size_t index, Move move) {
  if (!move.possible) return {};
  const ObjectMemory now = memories_[from];
  if (members_.max && now.count >= *members_.max) return {};
  const std::size_t listed = members_.named.size();
  const FormulaId value =
      index < listed ? members_.named[index].value : members_.others[index - listed].value;
  std::uint32_t demands =
      index < listed ? members_.named[index].demands : members_.others[index - listed].demands;
  FormulaTable& formulas = emitter_.space().formulas();
  demands &= ~now.met;
  // With each set of the demands that it can meet.
  for (std::uint32_t set = demands;; set = (set - 1) & demands) {
    std::vector<FormulaId> parts = {value};
    for (std::size_t d = 0; d < members_.demanded.size(); ++d) {
      if ((set >> d & 1) != 0) parts.push_back(members_.demanded[d]);
    }
    const FormulaId both = formulas.all_of(std::move(parts));
    QUIRE_ASSIGN_OR_RETURN(const bool empty, emitter_.space().is_empty(both));
    if (!empty) {
      const ObjectMemory next{move.place, std::min(now.count + 1, enough_), now.met | set};
      MemoryStep step;
      QUIRE_ASSIGN_OR_RETURN(step.expr, member(index, both));
      QUIRE_RETURN_IF_ERROR(number_of(next, &step.to));
      states_[from].steps.push_back(step);
      if (both == value) break;  // it meets all of them anyway
    }
    if (set == 0) break;
  }
  return {};
}

Status ObjectMemoryBuilder::add_steps(std::size_t from) {
  const std::uint32_t place = memories_[from].place;
  const std::size_t listed = members_.named.size();
  for (std::size_t i = 0; i < listed + members_.others.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(
        add_member(from, i, i < listed ? move_to(place, i) : move_to_others(place)));
  }
  return {};
}

Result<ExprId> ObjectMemoryBuilder::build() {
  choose_order();
  enough_ = members_.max ? *members_.max : members_.min;
  std::size_t first = 0;
  QUIRE_RETURN_IF_ERROR(number_of(ObjectMemory(), &first));
  const std::uint32_t all_met = (1U << members_.demanded.size()) - 1;
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    states_.emplace_back();
    const ObjectMemory& memory = memories_[i];
    states_[i].can_end =
        memory.count >= members_.min && memory.met == all_met && all_there(memory.place);
    QUIRE_RETURN_IF_ERROR(add_steps(i));
    QUIRE_RETURN_IF_ERROR(emitter_.space().budget().tick(64));
  }
  return emit_memory(emitter_, states_);
}

}  // namespace

Result<ExprId> emit_object(SchemaEmitter& emitter, const ObjectCase& object) {
  GrammarBuilder& builder = emitter.builder();
  QUIRE_ASSIGN_OR_RETURN(Members members, members_of(emitter.space(), object));
  if (members.impossible) return builder.nothing();
  const auto required =
      static_cast<std::int64_t>(std::count_if(members.named.begin(), members.named.end(),
                                              [](const Named& named) { return named.required; }));
  const auto listed = static_cast<std::int64_t>(members.named.size());
  const bool free = emitter.space().options().property_order == PropertyOrder::kFree && listed > 0;
  const bool may_repeat = free && members.named.size() > JsonSchemaOptions::kMaxFreeMembers;
  if (members.min <= required) members.min = 0;
  if (members.max && members.others.empty() && *members.max >= listed && !may_repeat) {
    members.max.reset();
  }
  const bool remember = members.min > 1 || members.max || !members.demanded.empty() || free;
  ExprId inside = 0;
  if (remember) {
    ObjectMemoryBuilder memory(emitter, members);
    QUIRE_ASSIGN_OR_RETURN(inside, memory.build());
  } else {
    RowOfMembers row(emitter, members);
    QUIRE_ASSIGN_OR_RETURN(inside, row.build(members.min == 0));
  }
  const ExprId space = emitter.white_space();
  return builder.seq({emitter.object_begin(), space, inside, space, emitter.object_end()});
}

}  // namespace quire
