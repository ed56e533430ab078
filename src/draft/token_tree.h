// The shape of a tree of guesses before their tokens are known: several guesses after the same one
// are the drafter's first, second, ... choices there. Its parents are DraftTreeView's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/draft_tree.h"
#include "base/status.h"

namespace quire {

// A list of paths, each the choices from the first place on: vLLM's speculative_token_tree, a
// Python list of tuples in a string ("[(0,), (0, 0), (0, 1)]"), or the same as lists of JSON, which
// is how Medusa writes its choices ([[0], [0, 0], [0, 1]]). A path comes behind the one that it
// continues, and behind the next better choice. kInvalidArgument, which begins with `where`.
Result<std::vector<std::int32_t>> parse_token_tree(const boost::json::value& value,
                                                   std::string_view where);

// So many guesses, the likeliest first, where nothing was measured yet: each place's best choice is
// right less often than that of the place before (0.7 at first, then 0.8 times as often), and each
// further choice takes half of what those before it leave. This is the construction of Medusa's
// paper (Cai et al. 2024, 2.3.3) with assumed accuracies; its own measured tree begins alike.
std::vector<std::int32_t> likely_token_tree(std::int32_t count);

std::int32_t num_leaves(std::span<const std::int32_t> parents);

// Where a guess stands: how many guesses come before it on its path, and which choice it is there.
struct GuessPlace {
  std::int32_t depth = 0;
  std::int32_t choice = 0;
};
// Of each guess of a tree, or, without parents, of a chain of `count`; at most kMaxTreeDrafts.
using GuessPlaces = std::array<GuessPlace, kMaxTreeDrafts>;
GuessPlaces places_of(std::span<const std::int32_t> parents, std::int32_t count);

// The most choices that a tree has for a place; 1 of a chain.
std::int32_t most_choices(std::span<const std::int32_t> parents);
// Whether it continues first choices alone: the others are leaves.
bool continues_first_choices(std::span<const std::int32_t> parents);

// The tree with those tokens that there are: `choices[depth]`, the best first, are the same behind
// whatever was guessed before. What follows a guess that there is not is left out.
void fill_token_tree(std::span<const std::int32_t> parents, std::int32_t count,
                     std::span<const std::vector<TokenId>> choices, DraftTree& tree);

}  // namespace quire
