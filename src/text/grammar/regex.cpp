#include "text/grammar/regex.h"

#include <algorithm>
#include <array>
#include <string>

#include "text/grammar/nfa.h"
#include "text/grammar/regex_parser.h"

namespace quire {

namespace {

using NodeKind = RegexNode::Kind;

// Columns beyond bytes that stand for "the text begins here" and "ends here" until resolve_marks().
constexpr std::uint32_t kBeginMark = 256;
constexpr std::uint32_t kEndMark = 257;

// Without marks: they are ways that cost no byte, but are open only where nothing was read before,
// or is read behind. So a state is four, by what has been: nothing yet, bytes, and both with the
// end passed.
struct Unmarked {
  Nfa nfa;
  std::int32_t start = 0;
  std::int32_t accept = 0;
};

Unmarked resolve_marks(const Nfa& marked, std::int32_t start, std::int32_t accept) {
  enum Phase : std::int32_t { kNothing, kBytes, kEmptyEnd, kEnd, kPhases };
  Unmarked result;
  for (std::size_t i = 0; i < marked.num_states() * kPhases; ++i) result.nfa.add_state();
  const auto at = [](std::int32_t state, std::int32_t phase) { return state * kPhases + phase; };
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(marked.num_states()); ++state) {
    for (std::int32_t index = marked.first_edge(state); index >= 0;
         index = marked.edge(index).next) {
      const Nfa::Edge& edge = marked.edge(index);
      for (std::int32_t phase = 0; phase < kPhases; ++phase) {
        const bool ended = phase == kEmptyEnd || phase == kEnd;
        const bool nothing = phase == kNothing || phase == kEmptyEnd;
        if (edge.first == Nfa::kEmpty || (edge.first == kBeginMark && nothing)) {
          result.nfa.add_empty(at(state, phase), at(edge.target, phase));
        } else if (edge.first == kEndMark) {
          result.nfa.add_empty(at(state, phase), at(edge.target, nothing ? kEmptyEnd : kEnd));
        } else if (edge.first < kBeginMark && !ended) {
          result.nfa.add_edge(at(state, phase), edge.first, edge.last, at(edge.target, kBytes));
        }
      }
    }
  }
  result.nfa.set_covering(at(marked.first_covering(), kNothing),
                          at(marked.past_covering(), kNothing));
  result.start = at(start, kNothing);
  result.accept = result.nfa.add_state();
  for (std::int32_t phase = 0; phase < kPhases; ++phase) {
    result.nfa.add_empty(at(accept, phase), result.accept);
  }
  return result;
}

class RegexBuilder {
 public:
  RegexBuilder(const RegexTree& tree, const SourceCursor& cursor, GrammarBudget& budget)
      : tree_(&tree), cursor_(&cursor), budget_(&budget) {
    // A node's children come before it.
    has_look_.resize(tree.nodes.size());
    has_mark_.resize(tree.nodes.size());
    for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
      const RegexNode& node = tree.nodes[i];
      has_look_[i] = node.kind == NodeKind::kLookAhead;
      has_mark_[i] = node.kind == NodeKind::kBegin || node.kind == NodeKind::kEnd;
      for (const std::size_t child : node.children) {
        if (has_look_[child]) has_look_[i] = true;
        if (has_mark_[child]) has_mark_[i] = true;
      }
    }
  }

  Result<Dfa> run(bool whole_text) {
    if (!has_look_[tree_->root]) {
      return language(std::span(&tree_->root, 1), !whole_text, !whole_text);
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<Parts> alternatives, spread(tree_->root));
    std::vector<Dfa> parts;
    for (const Parts& alternative : alternatives) {
      QUIRE_ASSIGN_OR_RETURN(Dfa part, looking_ahead(alternative, !whole_text));
      parts.push_back(std::move(part));
    }
    return dfa_union(parts, *budget_);
  }

 private:
  const RegexNode& node(std::size_t index) const { return tree_->nodes[index]; }

  // Nodes one behind the other.
  using Parts = std::vector<std::size_t>;

  // The ways through a node, so that each look-ahead is followed by all that comes behind it:
  // a(?:(?!b)c)?d is a(?!b)cd and ad.
  Result<std::vector<Parts>> spread(std::size_t index) const {
    constexpr std::size_t kMaxWays = 64;
    const RegexNode& of = node(index);
    std::vector<Parts> ways;
    if (!has_look_[index] || of.kind == NodeKind::kLookAhead) {
      ways = {{index}};
    } else if (of.kind == NodeKind::kSequence) {
      ways = {{}};
      for (const std::size_t child : of.children) {
        QUIRE_ASSIGN_OR_RETURN(const std::vector<Parts> more, spread(child));
        if (ways.size() * more.size() > kMaxWays) return too_many_ways(index);
        std::vector<Parts> longer;
        for (const Parts& way : ways) {
          for (const Parts& rest : more) {
            longer.push_back(way);
            longer.back().insert(longer.back().end(), rest.begin(), rest.end());
          }
        }
        ways = std::move(longer);
      }
    } else if (of.kind == NodeKind::kRepeat && of.max > 1) {
      return nested_look(index);
    } else {
      if (of.kind == NodeKind::kRepeat && of.min == 0) ways.emplace_back();
      for (const std::size_t child : of.children) {
        QUIRE_ASSIGN_OR_RETURN(const std::vector<Parts> more, spread(child));
        ways.insert(ways.end(), more.begin(), more.end());
      }
      if (ways.size() > kMaxWays) return too_many_ways(index);
    }
    return ways;
  }

  Status too_many_ways(std::size_t index) const {
    return cursor_->unsupported_at(node(index).position,
                                   "look-ahead within more than 64 alternatives is not supported",
                                   "write it outside of groups");
  }

  Status nested_look(std::size_t index) const {
    const RegexNode& of = node(index);
    if (of.kind == NodeKind::kLookAhead) {
      return cursor_->unsupported_at(
          of.position,
          "look-ahead within a group that is repeated, or within another one, is not supported",
          "write it outside of groups");
    }
    for (const std::size_t child : of.children) {
      if (has_look_[child]) return nested_look(child);
    }
    return {};
  }

  // The language of nodes one behind the other, with any text before and behind where that is open.
  Result<Dfa> language(std::span<const std::size_t> sequence, bool open_begin, bool open_end) {
    bool marks = false;
    for (const std::size_t part : sequence) {
      if (has_look_[part]) QUIRE_RETURN_IF_ERROR(nested_look(part));
      if (has_mark_[part]) marks = true;
    }
    Nfa nfa;
    const std::int32_t start = nfa.add_state();
    std::int32_t at = start;
    const auto add_any_text = [&] {
      const std::int32_t next = nfa.add_state();
      nfa.add_dfa(Dfa::any_text(), at, next);
      at = next;
    };
    if (open_begin) add_any_text();
    for (const std::size_t part : sequence) {
      const std::int32_t next = nfa.add_state();
      QUIRE_RETURN_IF_ERROR(build(part, at, next, nfa));
      at = next;
    }
    if (open_end) {
      const auto first = static_cast<std::int32_t>(nfa.num_states()) + 1;
      add_any_text();
      nfa.set_covering(first, static_cast<std::int32_t>(nfa.num_states()));
    }
    if (!marks) return nfa.determinize(start, at, *budget_);
    const Unmarked unmarked = resolve_marks(nfa, start, at);
    QUIRE_RETURN_IF_ERROR(
        budget_->check_size(unmarked.nfa.num_states() / 4, unmarked.nfa.num_edges() / 4));
    return unmarked.nfa.determinize(unmarked.start, unmarked.accept, *budget_);
  }

  // An alternative with look-ahead between its parts: from its end on, what follows is cut down to
  // what each allows.
  Result<Dfa> looking_ahead(const Parts& parts, bool open) {
    std::vector<std::size_t> stretch;  // parts behind the look-ahead at hand, in reverse order
    std::optional<Dfa> behind;
    const auto take_stretch = [&](bool at_begin) -> Status {
      std::reverse(stretch.begin(), stretch.end());
      for (const std::size_t part : stretch) {
        if (!at_begin && has_mark(part, NodeKind::kBegin)) return misplaced(part);
        if (behind && has_mark(part, NodeKind::kEnd)) return misplaced(part);
      }
      QUIRE_ASSIGN_OR_RETURN(Dfa dfa, language(stretch, at_begin && open, !behind && open));
      stretch.clear();
      if (behind) {
        const std::array<Dfa, 2> both = {std::move(dfa), *std::move(behind)};
        QUIRE_ASSIGN_OR_RETURN(dfa, dfa_concat(both, *budget_));
      }
      behind = std::move(dfa);
      return {};
    };
    for (std::size_t i = parts.size(); i-- > 0;) {
      const RegexNode& part = node(parts[i]);
      if (part.kind != NodeKind::kLookAhead) {
        stretch.push_back(parts[i]);
        continue;
      }
      QUIRE_RETURN_IF_ERROR(take_stretch(false));
      if (has_mark(part.children[0], NodeKind::kBegin)) return misplaced(part.children[0]);
      QUIRE_ASSIGN_OR_RETURN(const Dfa ahead, language(part.children, false, true));
      QUIRE_ASSIGN_OR_RETURN(behind, part.negative ? dfa_difference(*behind, ahead, *budget_)
                                                   : dfa_intersect(*behind, ahead, *budget_));
    }
    QUIRE_RETURN_IF_ERROR(take_stretch(true));
    return *std::move(behind);
  }

  bool has_mark(std::size_t index, NodeKind kind) const {
    if (!has_mark_[index]) return false;
    const RegexNode& of = node(index);
    if (of.kind == NodeKind::kBegin || of.kind == NodeKind::kEnd) return of.kind == kind;
    return std::any_of(of.children.begin(), of.children.end(),
                       [&](std::size_t child) { return has_mark(child, kind); });
  }

  Status misplaced(std::size_t index) const {
    return cursor_->unsupported_at(
        node(index).position, "^ behind or within a look-ahead, or $ before one, is not supported",
        "write ^ first and $ last");
  }

  Status build(std::size_t index, std::int32_t from, std::int32_t to, Nfa& nfa) {
    const RegexNode& of = node(index);
    QUIRE_RETURN_IF_ERROR(budget_->tick());
    QUIRE_RETURN_IF_ERROR(budget_->check_size(nfa.num_states() / 2, nfa.num_edges() / 2));
    switch (of.kind) {
      case NodeKind::kChars:
        nfa.add_chars(of.set, from, to);
        return {};
      case NodeKind::kSequence: {
        if (of.children.empty()) nfa.add_empty(from, to);
        std::int32_t at = from;
        for (std::size_t i = 0; i < of.children.size(); ++i) {
          const std::int32_t next = i + 1 < of.children.size() ? nfa.add_state() : to;
          QUIRE_RETURN_IF_ERROR(build(of.children[i], at, next, nfa));
          at = next;
        }
        return {};
      }
      case NodeKind::kAlternative:
        for (const std::size_t child : of.children) {
          QUIRE_RETURN_IF_ERROR(build(child, from, to, nfa));
        }
        return {};
      case NodeKind::kRepeat:
        return build_repeat(of, from, to, nfa);
      case NodeKind::kBegin:
        nfa.add_edge(from, kBeginMark, kBeginMark, to);
        return {};
      case NodeKind::kEnd:
        nfa.add_edge(from, kEndMark, kEndMark, to);
        return {};
      case NodeKind::kLookAhead:
        break;
    }
    return Status::internal("a look-ahead was left in a regular expression");
  }

  Status build_repeat(const RegexNode& of, std::int32_t from, std::int32_t to, Nfa& nfa) {
    const std::size_t child = of.children[0];
    const bool simple = of.max == RegexNode::kNoMax ? of.min <= 1 : of.max <= 1;
    if (!simple && !has_mark_[child]) {
      QUIRE_ASSIGN_OR_RETURN(const Dfa once, language(of.children, false, false));
      const auto max = of.max == RegexNode::kNoMax ? std::nullopt : std::optional(of.max);
      QUIRE_ASSIGN_OR_RETURN(const Dfa often, dfa_repeat(once, of.min, max, *budget_));
      nfa.add_dfa(often, from, to);
      return {};
    }
    std::int32_t at = from;
    const auto add_copy = [&]() -> Status {
      const std::int32_t next = nfa.add_state();
      QUIRE_RETURN_IF_ERROR(build(child, at, next, nfa));
      at = next;
      return {};
    };
    for (std::uint32_t i = 0; i < of.min; ++i) QUIRE_RETURN_IF_ERROR(add_copy());
    if (of.max == RegexNode::kNoMax) {
      const std::int32_t loop = nfa.add_state();
      nfa.add_empty(at, loop);
      QUIRE_RETURN_IF_ERROR(build(child, loop, loop, nfa));
      nfa.add_empty(loop, to);
      return {};
    }
    for (std::uint32_t i = of.min; i < of.max; ++i) {
      nfa.add_empty(at, to);
      QUIRE_RETURN_IF_ERROR(add_copy());
    }
    nfa.add_empty(at, to);
    return {};
  }

  const RegexTree* tree_;
  const SourceCursor* cursor_;
  GrammarBudget* budget_;
  std::vector<bool> has_look_;
  std::vector<bool> has_mark_;
};

}  // namespace

Result<Dfa> regex_to_dfa(std::string_view pattern, const RegexOptions& options,
                         GrammarBudget& budget) {
  constexpr std::string_view kWhat = "the regular expression";
  QUIRE_RETURN_IF_ERROR(check_source(pattern, kWhat, budget.limits().max_source_bytes));
  SourceCursor cursor(pattern, kWhat);
  QUIRE_ASSIGN_OR_RETURN(const RegexTree tree, parse_regex(cursor, options, budget.limits()));
  return RegexBuilder(tree, cursor, budget).run(options.whole_text);
}

}  // namespace quire
