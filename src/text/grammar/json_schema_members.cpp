#include "text/grammar/json_schema_members.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

using Named = ObjectMembers::Named;
using Others = ObjectMembers::Others;

// Demands of one object for some member.
constexpr std::size_t kMaxMemberDemands = 12;

// Splits the names that are not listed by `names`; what is in both gets `value` and `demand`.
Status split_others(SchemaSpace& space, const StringSet& names, FormulaId value,
                    std::uint32_t demand, std::vector<Others>& others) {
  constexpr std::size_t kMaxClasses = 64;
  std::vector<Others> parts;
  for (Others& part : others) {
    StringSet all = part.names;
    if (all.kind() == StringSet::Kind::kAllBut && names.kind() == StringSet::Kind::kRegular) {
      QUIRE_ASSIGN_OR_RETURN(Dfa language, all.language(space.budget()));
      all = StringSet::regular(std::move(language));
    }
    QUIRE_ASSIGN_OR_RETURN(StringSet inside, intersect(all, names, space.budget()));
    if (inside.is_none()) {
      parts.push_back(std::move(part));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(StringSet rest, difference(all, names, space.budget()));
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
Result<bool> list_few(SchemaSpace& space, const Others& others, ObjectMembers& members) {
  constexpr std::size_t kFewNames = 16;
  if (others.names.kind() != StringSet::Kind::kRegular) return false;
  QUIRE_ASSIGN_OR_RETURN(const Dfa names, others.names.language(space.budget()));
  const auto texts = names.texts(kFewNames);
  if (!texts) return false;
  for (const std::string& name : *texts) {
    members.named.push_back({name, others.value, false, 0, others.demands});
  }
  return true;
}

}  // namespace

Result<ObjectMembers> object_members(SchemaSpace& space, const ObjectCase& object) {
  ObjectMembers members;
  members.min = object.min;
  members.max = object.max;
  std::vector<NamedMember> named = object.named;
  std::vector<MembersByName> some;
  // Names that only conditions mention are members like others.
  const auto mention = [&named](const StringSet& names) {
    if (names.kind() != StringSet::Kind::kThese && names.kind() != StringSet::Kind::kAllBut) return;
    std::vector<std::string_view> known;
    for (const NamedMember& member : named) known.push_back(member.name);
    std::ranges::sort(known);
    std::vector<NamedMember> missing;
    for (const std::string& name : names.texts()) {
      if (std::ranges::binary_search(known, std::string_view(name))) continue;
      missing.push_back({name, kTrueFormula, false, 0});
    }
    std::ranges::move(missing, std::back_inserter(named));
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
    Named one{member.name, value_of_member(object, member, space.formulas()), member.required,
              member.place, 0};
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

}  // namespace quire
