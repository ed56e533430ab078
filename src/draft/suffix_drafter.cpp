#include "draft/suffix_drafter.h"

#include <algorithm>
#include <utility>

namespace quire {

SuffixDrafter::SuffixDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes,
                             std::size_t max_shared_tokens)
    : LookupDrafter({kGrams.begin(), kGrams.end()}, max_bytes),
      config_(config),
      shared_(max_shared_tokens, static_cast<std::size_t>(config.suffix_max_cached_requests),
              kGrams) {
  nodes_.reserve(kMaxTreeDrafts + 1);
  followed_.reserve(TokenIndex::kMaxVisited);
}

void SuffixDrafter::end(RequestId request_id, std::span<const TokenId> output) {
  LookupDrafter::end(request_id, output);
  shared_.add(output);
}

void SuffixDrafter::look_up(const TokenIndex& index, std::span<const TokenId> tokens,
                            std::int32_t most, Draft& draft) {
  index.find(tokens, tokens, config_.suffix_max_tree_depth, matches());
  double best = follow(tokens, /*own=*/true, most, draft);
  for (std::size_t i = 0; i < 2; ++i) {
    const SharedOutputs::Half& half = shared_.half(i);
    half.index.find(half.text, tokens, config_.suffix_max_tree_depth, matches());
    const double score = follow(half.text, /*own=*/false, most, other_);
    if (score <= best) continue;
    best = score;
    std::swap(draft, other_);
  }
}

// What comes behind a place, where the drafts up to `node` are what came there first. The request's
// own text goes on with what is guessed.
TokenId SuffixDrafter::token_after(const TokenIndex::Match& match, std::int32_t node,
                                   std::span<const TokenId> text, bool own,
                                   const Draft& draft) const {
  std::int32_t depth = nodes_[static_cast<std::size_t>(node + 1)].depth;
  const auto at = static_cast<std::size_t>(match.end + depth);
  if (at < text.size()) return text[at];
  if (!own) return SharedOutputs::kSeparator;
  // Of the drafts up to `node` that at this depth.
  const auto wanted = static_cast<std::int32_t>(at - text.size()) + 1;
  for (; depth > wanted; --depth) node = draft.parents[static_cast<std::size_t>(node)];
  return draft.tokens[static_cast<std::size_t>(node)];
}

// Those of the places that have been followed to `node`. The places are in order of their lengths.
void SuffixDrafter::offer_choices(std::int32_t node, std::span<const TokenId> text, bool own,
                                  const Draft& draft) {
  const auto first = static_cast<std::ptrdiff_t>(choices_.size());
  double left = node_of(node).probability;  // to matches that are shorter
  std::int32_t num_places = 0;
  std::int32_t length = 0;  // of the last of them
  const auto share = [&](double most) {
    for (Choice& choice : std::span(choices_).subspan(static_cast<std::size_t>(first))) {
      choice.probability += most * choice.count / num_places;
    }
    left -= most;
  };
  for (std::size_t i = 0; i < matches().size(); ++i) {
    if (followed_[i] != node) continue;
    if (num_places > 0 && matches()[i].length < length) {
      const double num_ways = static_cast<double>(std::ssize(choices_) - first);
      share(left * num_places / (num_places + num_ways));
    }
    length = matches()[i].length;
    ++num_places;
    const TokenId token = token_after(matches()[i], node, text, own, draft);
    const auto known = std::find_if(choices_.begin() + first, choices_.end(),
                                    [&](const Choice& choice) { return choice.token == token; });
    if (known == choices_.end()) {
      choices_.push_back({.parent = node, .token = token, .count = 1});
    } else {
      ++known->count;
    }
  }
  if (num_places > 0) share(branches() ? left * (draft.match + 1) / (draft.match + 2) : left);
}

// The first of the most probable ones, where one is probable enough and a path may have it: null.
const SuffixDrafter::Choice* SuffixDrafter::best_choice(std::int32_t num_paths) const {
  const Choice* best = nullptr;
  for (const Choice& choice : choices_) {
    const bool branches = nodes_[static_cast<std::size_t>(choice.parent + 1)].followed;
    if (choice.token == SharedOutputs::kSeparator ||
        choice.probability < config_.suffix_min_token_prob ||
        (branches && num_paths == config_.suffix_max_tree_width)) {
      continue;
    }
    if (best == nullptr || choice.probability > best->probability) best = &choice;
  }
  return best;
}

// Those that say what may follow, the longest first.
void SuffixDrafter::keep_matches(std::int32_t longest) {
  if (branches()) {
    std::ranges::sort(matches(), [](const auto& a, const auto& b) {
      return a.length != b.length ? a.length > b.length : a.end > b.end;
    });
  } else {
    std::erase_if(matches(), [&](const auto& match) { return match.length < longest; });
  }
}

double SuffixDrafter::follow(std::span<const TokenId> text, bool own, std::int32_t most,
                             Draft& draft) {
  draft.clear();
  if (matches().empty()) return 0;
  draft.match = std::ranges::max(matches(), {}, &TokenIndex::Match::length).length;
  keep_matches(draft.match);
  const auto max_depth =
      static_cast<std::int32_t>(config_.suffix_max_spec_factor * static_cast<double>(draft.match));
  constexpr std::int32_t kText = DraftTreeView::kRoot;
  nodes_.assign(1, Node{});
  followed_.assign(matches().size(), kText);
  choices_.clear();
  if (max_depth > 0) offer_choices(kText, text, own, draft);
  std::int32_t num_paths = 1;
  double score = 0;
  for (std::int32_t node = 0; node < most; ++node) {
    const Choice* const best = best_choice(num_paths);
    if (best == nullptr) break;
    const Choice taken = *best;
    choices_.erase(choices_.begin() + (best - choices_.data()));
    for (std::size_t i = 0; i < matches().size(); ++i) {
      const bool goes_on = followed_[i] == taken.parent &&
                           token_after(matches()[i], taken.parent, text, own, draft) == taken.token;
      if (goes_on) followed_[i] = node;
    }
    Node& parent = node_of(taken.parent);
    num_paths += parent.followed ? 1 : 0;
    parent.followed = true;
    nodes_.push_back({.depth = parent.depth + 1, .probability = taken.probability});
    draft.tokens.push_back(taken.token);
    draft.parents.push_back(taken.parent);
    score += taken.probability;
    if (node_of(node).depth < max_depth) offer_choices(node, text, own, draft);
  }
  return score;
}

}  // namespace quire
