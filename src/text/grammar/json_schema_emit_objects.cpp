#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "text/grammar/json_schema_emit.h"
#include "text/grammar/json_schema_members.h"

namespace quire {
namespace {

// So many consecutive optional members share a rule: what may stand behind each of them is another
// text, which grows with the square of their number.
constexpr std::size_t kMembersInPlace = 6;

using Members = ObjectMembers;
using Named = ObjectMembers::Named;

// Members in the order of their list, with nothing else to remember: one or more members, cut into
// stretches, each of which is a graph; the next stretch has a rule of its own. So every member's
// text is there once. Two places for each: where its text or a later one's may begin, and where one
// before it may have ended.
class RowOfMembers {
 public:
  RowOfMembers(SchemaEmitter& emitter, const Members& members)
      : emitter_(emitter),
        builder_(emitter.builder()),
        members_(members),
        empty_(builder_.empty()) {}

  Result<ExprId> build(bool may_be_empty);

 private:
  Status add_exprs();
  // The first members of stretches.
  std::vector<std::size_t> cuts() const;
  // Members from `first` of the list on; `rest`: those from `last` on, where the list goes on
  // there.
  ExprId row(std::size_t first, std::size_t last, ExprId rest);

  static std::uint32_t begin(std::size_t i) { return static_cast<std::uint32_t>(2 * i + 2); }
  static std::uint32_t end(std::size_t i) { return begin(i) + 1; }

  SchemaEmitter& emitter_;
  GrammarBuilder& builder_;
  const Members& members_;
  ExprId empty_;
  std::vector<ExprId> exprs_;
  std::size_t optional_from_ = 0;  // no member from there on is required
  std::optional<ExprId> other_;    // a member that is not listed
};

Status RowOfMembers::add_exprs() {
  for (const Named& named : members_.named) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emitter_.member(named.name, named.value));
    exprs_.push_back(expr);
    if (named.required) optional_from_ = exprs_.size();
  }
  if (members_.others.empty()) return {};
  std::vector<ExprId> others;
  for (const ObjectMembers::Others& other : members_.others) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, emitter_.member(other.names, other.value));
    others.push_back(expr);
  }
  const RuleId rule = builder_.add_rule("other member");
  builder_.define(rule, builder_.choice(others));
  other_ = builder_.rule(rule);
  return {};
}

std::vector<std::size_t> RowOfMembers::cuts() const {
  std::vector<std::size_t> found = {0};
  std::size_t optional = 0;
  for (std::size_t i = 0; i + 1 < exprs_.size(); ++i) {
    if (!members_.named[i].required) ++optional;
    if (optional != kMembersInPlace) continue;
    optional = 0;
    found.push_back(i + 1);
  }
  return found;
}

ExprId RowOfMembers::row(std::size_t first, std::size_t last, ExprId rest) {
  const std::size_t size = last - first;
  const bool is_last = last == exprs_.size();
  std::vector<GrammarEdge> edges = {{0, begin(0), empty_}};
  for (std::size_t i = 0; i <= size; ++i) {
    if (first + i >= optional_from_) edges.push_back({end(i), 1, empty_});
    if (i < size || !is_last || other_) edges.push_back({end(i), begin(i), emitter_.comma()});
    if (i == size) break;
    edges.push_back({begin(i), end(i + 1), exprs_[first + i]});
    if (!members_.named[first + i].required) edges.push_back({begin(i), begin(i + 1), empty_});
  }
  if (!is_last) {
    edges.push_back({begin(size), 1, rest});
  } else if (other_) {
    edges.push_back({begin(size), end(size), *other_});
  }
  return builder_.graph(std::move(edges));
}

Result<ExprId> RowOfMembers::build(bool may_be_empty) {
  QUIRE_RETURN_IF_ERROR(add_exprs());
  const std::vector<std::size_t> firsts = cuts();
  std::size_t last = exprs_.size();
  ExprId rest = empty_;
  for (std::size_t i = firsts.size(); i-- > 1;) {
    const RuleId rule = builder_.add_rule("members");
    builder_.define(rule, row(firsts[i], last, rest));
    rest = builder_.rule(rule);
    last = firsts[i];
  }
  const ExprId all = row(0, last, rest);
  return may_be_empty && optional_from_ == 0 ? builder_.optional(all) : all;
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
  // ObjectMemory::place of a row: how many have come, and which of both orders that has not been.
  static constexpr std::uint32_t kNotProperties = 1U << 30;
  static constexpr std::uint32_t kNotRequired = 1U << 31;
  static constexpr std::uint32_t kRowCount = kNotProperties - 1;

  void choose_order();
  void fill_row();
  Move move_in_row(std::uint32_t place, int bit) const;
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
  bool in_row_ = false;    // free, but the required ones as `properties` or as `required` has them
  std::vector<int> bits_;  // of a name in `place`, or its number among the required; -1: forgotten
  std::vector<int> row_;   // in_row_: the number of each of them by their order in `required`
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
  if (in_row_) fill_row();
}

void ObjectMemoryBuilder::fill_row() {
  std::vector<std::pair<std::int64_t, int>> places;
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (bits_[i] >= 0) places.emplace_back(members_.named[i].place, bits_[i]);
  }
  std::ranges::sort(places);
  for (const auto& [place, bit] : places) row_.push_back(bit);
}

ObjectMemoryBuilder::Move ObjectMemoryBuilder::move_in_row(std::uint32_t place, int bit) const {
  const std::uint32_t count = place & kRowCount;
  if (count == static_cast<std::uint32_t>(num_bits_)) return {false, place};
  if (static_cast<std::uint32_t>(bit) != count) place |= kNotProperties;
  if (bit != row_[count]) place |= kNotRequired;
  const bool possible = (place & kNotProperties) == 0 || (place & kNotRequired) == 0;
  return {possible, place + 1};
}

ObjectMemoryBuilder::Move ObjectMemoryBuilder::move_to(std::uint32_t place,
                                                       std::size_t member) const {
  if (free_) {
    const int bit = bits_[member];
    if (bit < 0) return {true, place};
    if (in_row_) return move_in_row(place, bit);
    return {(place >> bit & 1) == 0, place | 1U << bit};
  }
  bool possible = member >= place;
  for (std::size_t i = place; i < member && possible; ++i) possible = !members_.named[i].required;
  return {possible, static_cast<std::uint32_t>(member) + 1};
}

bool ObjectMemoryBuilder::all_there(std::uint32_t place) const {
  if (free_ && in_row_) return (place & kRowCount) == static_cast<std::uint32_t>(num_bits_);
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
  QUIRE_ASSIGN_OR_RETURN(Members members, object_members(emitter.space(), object));
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
