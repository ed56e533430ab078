#include "draft/token_tree.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"

namespace quire {
namespace {

using TreePath = std::vector<std::int32_t>;

Status bad_tree(std::string_view where, const std::string& what) {
  return Status::invalid_argument(
      fmt::format("{}: {}", where, what),
      "list the paths of choices, each behind the one that it continues: [(0,), (0, 0), (0, 1)]");
}

// Tuples as JSON has lists, a comma behind the last element left out.
std::string as_lists(std::string_view tuples) {
  std::string lists;
  for (const char c : tuples) {
    const bool closes = c == ')' || c == ']';
    if (closes) {
      const std::size_t last = lists.find_last_not_of(' ');
      if (last != lists.npos && lists[last] == ',') lists.resize(last);
    }
    lists.push_back(closes ? ']' : c == '(' ? '[' : c);
  }
  return lists;
}

Result<TreePath> read_path(const json::value& value, std::string_view where) {
  TreePath path;
  if (!value.is_array() || value.get_array().empty()) {
    return bad_tree(where, "expected a list of paths that are not empty");
  }
  for (const json::value& choice : value.get_array()) {
    if (!choice.is_int64() || choice.get_int64() < 0 || choice.get_int64() >= kMaxTreeDrafts) {
      return bad_tree(where, fmt::format("expected choices from 0 to {}", kMaxTreeDrafts - 1));
    }
    path.push_back(static_cast<std::int32_t>(choice.get_int64()));
  }
  return path;
}

}  // namespace

Result<std::vector<std::int32_t>> parse_token_tree(const json::value& value,
                                                   std::string_view where) {
  json::value lists = value;
  if (value.is_string()) {
    auto parsed = parse_json(as_lists(value.get_string()), where, 4);
    if (!parsed.ok()) return bad_tree(where, "expected a list of tuples of whole numbers");
    lists = std::move(*parsed);
  }
  if (!lists.is_array() || lists.get_array().empty() ||
      lists.get_array().size() > static_cast<std::size_t>(kMaxTreeDrafts)) {
    return bad_tree(where, fmt::format("expected a list of 1 to {} paths", kMaxTreeDrafts));
  }
  std::vector<std::int32_t> parents;
  std::map<TreePath, std::int32_t> known;
  const auto expect_known = [&](const TreePath& path, const TreePath& before) -> Status {
    if (known.contains(before)) return {};
    return bad_tree(where, fmt::format("path ({}) comes without ({}) before it",
                                       fmt::join(path, ", "), fmt::join(before, ", ")));
  };
  for (const json::value& each : lists.get_array()) {
    QUIRE_ASSIGN_OR_RETURN(const TreePath path, read_path(each, where));
    TreePath before = path;
    if (before.back() > 0) {
      --before.back();
      QUIRE_RETURN_IF_ERROR(expect_known(path, before));
    }
    before.pop_back();
    std::int32_t parent = DraftTreeView::kRoot;
    if (!before.empty()) {
      QUIRE_RETURN_IF_ERROR(expect_known(path, before));
      parent = known[before];
    }
    if (!known.emplace(path, static_cast<std::int32_t>(parents.size())).second) {
      return bad_tree(where, fmt::format("path ({}) comes twice", fmt::join(path, ", ")));
    }
    parents.push_back(parent);
  }
  return parents;
}

std::vector<std::int32_t> likely_token_tree(std::int32_t count) {
  constexpr double kFirst = 0.7;
  constexpr double kNext = 0.8;
  // What may be added: the next choice behind a guess, or behind the text.
  struct Offer {
    double parent = 1;     // that all up to there are right
    double best = kFirst;  // that the best choice there is
    double share = kFirst;
    std::int32_t node = DraftTreeView::kRoot;
    double chance() const { return parent * share; }
  };
  std::vector<Offer> offers = {Offer{}};
  std::vector<std::int32_t> parents;
  while (std::ssize(parents) < count) {
    Offer& likeliest = *std::ranges::max_element(offers, {}, &Offer::chance);
    const double best = likeliest.best * kNext;
    const Offer behind = {.parent = likeliest.chance(),
                          .best = best,
                          .share = best,
                          .node = static_cast<std::int32_t>(parents.size())};
    parents.push_back(likeliest.node);
    const bool first = likeliest.share == likeliest.best;
    likeliest.share = first ? (1 - likeliest.best) / 2 : likeliest.share / 2;
    offers.push_back(behind);
  }
  return parents;
}

std::int32_t num_leaves(std::span<const std::int32_t> parents) {
  std::int32_t count = 0;
  for (std::int32_t i = 0; i < std::ssize(parents); ++i) {
    if (std::ranges::find(parents, i) == parents.end()) ++count;
  }
  return count;
}

GuessPlaces places_of(std::span<const std::int32_t> parents, std::int32_t count) {
  GuessPlaces places{};
  const DraftTreeView tree({}, parents);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t parent = tree.parent(i);
    GuessPlace& place = places[static_cast<std::size_t>(i)];
    if (parent != DraftTreeView::kRoot) {
      place.depth = places[static_cast<std::size_t>(parent)].depth + 1;
    }
    for (std::int32_t other = 0; other < i; ++other) {
      if (tree.parent(other) == parent) ++place.choice;
    }
  }
  return places;
}

std::int32_t most_choices(std::span<const std::int32_t> parents) {
  const GuessPlaces places = places_of(parents, static_cast<std::int32_t>(parents.size()));
  return std::ranges::max(places, {}, &GuessPlace::choice).choice + 1;
}

// Then no two guesses at the same place but those after the same one.
bool continues_first_choices(std::span<const std::int32_t> parents) {
  const GuessPlaces places = places_of(parents, static_cast<std::int32_t>(parents.size()));
  return std::ranges::all_of(parents, [&](std::int32_t parent) {
    return parent == DraftTreeView::kRoot || places[static_cast<std::size_t>(parent)].choice == 0;
  });
}

void fill_token_tree(std::span<const std::int32_t> parents, std::int32_t count,
                     std::span<const std::vector<TokenId>> choices, DraftTree& tree) {
  tree.clear();
  const DraftTreeView shape({}, parents);
  const GuessPlaces places = places_of(parents, count);
  constexpr std::int32_t kAbsent = -2;
  std::array<std::int32_t, kMaxTreeDrafts> placed{};
  placed.fill(kAbsent);
  for (std::int32_t i = 0; i < count; ++i) {
    const GuessPlace& place = places[static_cast<std::size_t>(i)];
    const std::int32_t parent = shape.parent(i);
    const std::int32_t above =
        parent == DraftTreeView::kRoot ? parent : placed[static_cast<std::size_t>(parent)];
    if (above == kAbsent || place.depth >= std::ssize(choices)) continue;
    const std::vector<TokenId>& there = choices[static_cast<std::size_t>(place.depth)];
    if (place.choice >= std::ssize(there)) continue;
    placed[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(tree.tokens.size());
    tree.tokens.push_back(there[static_cast<std::size_t>(place.choice)]);
    tree.parents.push_back(above);
  }
}

}  // namespace quire
