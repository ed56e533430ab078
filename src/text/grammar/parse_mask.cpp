// Masks of parse sets.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "text/grammar/parse_free_tokens.h"
#include "text/grammar/parse_store.h"

namespace quire {

namespace {

// A mask of no more tokens is kept as a list.
constexpr std::size_t kFewMaskTokens = 256;
// Where an automaton goes more ways at once, its tokens are all walked.
constexpr std::size_t kMaxPlaces = 512;
// Of a state that calls more rules, a slice looks at its own bytes alone.
constexpr std::size_t kMaxSliceCalls = 8;

void allow(TokenId token, std::span<std::uint32_t> words) {
  const auto id = static_cast<std::size_t>(token);
  words[id / 32] |= std::uint32_t{1} << (id % 32);
}

}  // namespace

// The bytes that lead on from a place, sorted; at the beginning of a character those that begin a
// rule besides.
std::span<const ParseStore::SliceEdge> ParseStore::slice_edges(const SlicePlace& place,
                                                               std::int32_t character_start) {
  slice_edges_.clear();
  for (const RuleAutomata::ByteEdge& edge : automata_->bytes[place.state]) {
    slice_edges_.push_back({edge.first, edge.last, edge.target, place.back});
  }
  const bool begins = place.within == character_start && place.back == RuleAutomata::kNever;
  const std::span<const RuleAutomata::CallEdge> calls = automata_->calls[place.state];
  if (!begins || calls.empty() || calls.size() > kMaxSliceCalls) return slice_edges_;
  for (const RuleAutomata::CallEdge& call : calls) {
    for (const RuleAutomata::ByteEdge& edge : bytes_of(automata_->rules[call.rule].start)) {
      slice_edges_.push_back({edge.first, edge.last, edge.target, call.target});
    }
  }
  std::sort(slice_edges_.begin(), slice_edges_.end(),
            [](const SliceEdge& a, const SliceEdge& b) { return a.first < b.first; });
  return slice_edges_;
}

std::uint8_t ParseStore::slice_reach(std::uint32_t state, std::size_t slice) {
  std::vector<std::uint8_t>& known = reach_[slice];
  if (known.empty()) {
    known.assign(automata_->num_states(), kUnknownReach);
    bytes_ += known.size();
  }
  if (known[state] != kUnknownReach) return known[state];
  const TokenSlice& kind = vocabulary_->slices()[slice];
  const Dfa& character = kind.character;
  // Character by character: `level` has the states behind so many of them. Where all of them have
  // been met before, any number may follow.
  using Place = SlicePlace;
  std::vector<std::uint32_t> level = {state};
  std::vector<std::uint32_t> met = {state};
  const std::uint32_t longest = kind.parts.back().count;
  std::uint32_t count = 0;
  for (bool alive = true; alive && count < longest;) {
    std::vector<std::uint32_t> behind;
    std::vector<Place> todo;
    for (const std::uint32_t from : level) {
      todo.push_back({from, character.start(), RuleAutomata::kNever});
    }
    for (std::size_t i = 0; alive && i < todo.size(); ++i) {
      const Place at = todo[i];
      const std::span<const SliceEdge> edges = slice_edges(at, character.start());
      for (const DfaEdge& wanted : character.edges(at.within)) {
        std::uint32_t from = wanted.first;
        for (const SliceEdge& edge : edges) {
          if (edge.last < from) continue;
          if (edge.first > from || from > wanted.last) break;
          // Within a rule that was called, the character has to be all of it.
          const bool called = edge.back != RuleAutomata::kNever;
          if (!character.accepts(wanted.target)) {
            const Place place{edge.target, wanted.target, edge.back};
            if (std::find(todo.begin(), todo.end(), place) == todo.end()) todo.push_back(place);
          } else if (!called || automata_->accepting[edge.target]) {
            behind.push_back(called ? edge.back : edge.target);
          } else {
            break;
          }
          from = edge.last + std::uint32_t{1};
        }
        if (from <= wanted.last) alive = false;
      }
      if (todo.size() > kMaxPlaces) alive = false;
    }
    if (!alive) break;
    ++count;
    std::sort(behind.begin(), behind.end());
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
    if (std::includes(met.begin(), met.end(), behind.begin(), behind.end())) count = longest;
    std::vector<std::uint32_t> all;
    std::set_union(met.begin(), met.end(), behind.begin(), behind.end(), std::back_inserter(all));
    met = std::move(all);
    level = std::move(behind);
  }
  std::uint8_t reach = 0;
  while (reach < kind.parts.size() && kind.parts[reach].count <= count) ++reach;
  known[state] = reach;
  return reach;
}

const TokenSlice::Part* ParseStore::best_part(ParseSetId set) {
  const TokenSlice::Part* best = nullptr;
  for (const Item& item : items_of(set)) {
    // A slice looks at bytes alone, and not at whether max_depth allows what has to follow them.
    if (bytes_of(item.state).empty() && calls_of(item.state).empty()) continue;
    if (!fits(depth_of(item) + 1, automata_->max_height)) continue;
    for (std::size_t slice = 0; slice < reach_.size(); ++slice) {
      const std::uint8_t reach = slice_reach(item.state, slice);
      if (reach == 0) continue;
      const TokenSlice::Part& part = vocabulary_->slices()[slice].parts[reach - std::size_t{1}];
      if (best == nullptr || part.rest.nodes().size() < best->rest.nodes().size()) best = &part;
    }
  }
  return best;
}

void ParseStore::walk(ParseSetId set, const TokenTrie& trie, std::span<std::uint32_t> words) {
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  path_.resize(trie.max_depth() + 1);
  path_[0] = set;
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const ParseSetId next_set = next(path_[node.depth - std::size_t{1}], node.byte);
    if (next_set == kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth] = next_set;
    ++i;
    if (node.token < 0) continue;
    if (is_overfull()) break;
    allow(node.token, words);
    if (!trie.has_alike()) continue;
    for (const auto& [token, other] : trie.alike(node.token)) allow(other, words);
  }
}

void ParseStore::walk_all(ParseSetId set, std::span<std::uint32_t> words) {
  if (const TokenSlice::Part* part = best_part(set)) {
    std::copy(part->mask.begin(), part->mask.end(), words.begin());
    walk(set, part->rest, words);
  } else {
    std::fill(words.begin(), words.end(), 0);
    walk(set, vocabulary_->trie(), words);
  }
}

std::vector<ParseStore::Item> ParseStore::free_items(ParseSetId set) const {
  std::vector<Item> free;
  for (const Item& item : items_of(set)) {
    if (!open_.has(item.state)) continue;
    const OpenAutomaton& automaton = open_.automaton(item.state);
    if (automaton.free_bytes(open_.value(item.state)) > 0) free.push_back(item);
  }
  return free;
}

ParseSetId ParseStore::without(ParseSetId set, std::span<const Item> left_out) {
  if (left_out.empty()) return set;
  kernel_.clear();
  for (const Item& item : items_of(set)) {
    if (std::find(left_out.begin(), left_out.end(), item) == left_out.end())
      kernel_.push_back(item);
  }
  return intern(kernel_);
}

// kDead where the bytes are not all that may be free, and the automaton does not end behind them:
// no other byte may follow then.
ParseSetId ParseStore::behind_free_bytes(const Item& item, std::string_view bytes, bool are_all) {
  const OpenAutomaton& automaton = open_.automaton(item.state);
  std::optional<std::string> value = std::string(open_.value(item.state));
  for (const char byte : bytes) {
    value = automaton.next(*value, static_cast<std::uint8_t>(byte));
    if (!value) return kDead;
  }
  if (!are_all && !automaton.accepts(*value)) return kDead;
  kernel_ = {{open_.state_of(item.state, *std::move(value)), item.origin}};
  return intern(kernel_);
}

void ParseStore::keep_mask(ParseSetId set, std::span<const std::uint32_t> words) {
  Mask mask;
  std::size_t count = 0;
  for (const std::uint32_t word : words) count += static_cast<std::size_t>(std::popcount(word));
  if (count <= kFewMaskTokens) {
    mask.tokens.reserve(count);
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::uint32_t word = words[i]; word != 0; word &= word - 1) {
        mask.tokens.push_back(
            static_cast<TokenId>(i * 32 + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  } else {
    mask.words.assign(words.begin(), words.end());
  }
  bytes_ += sizeof(Mask) + mask.tokens.size() * sizeof(TokenId) +
            mask.words.size() * sizeof(std::uint32_t);
  sets_[set].mask = static_cast<std::uint32_t>(masks_.size());
  masks_.push_back(std::move(mask));
}

Status ParseStore::overfull() const {
  return Status::resource_exhausted(
      fmt::format("the tokens that may come next take more than {} bytes to find (limit "
                  "max_cache_bytes)",
                  limits_->max_cache_bytes),
      "make the grammar less ambiguous");
}

Status ParseStore::fill_mask(ParseSetId set, std::span<std::uint32_t> words) {
  if (sets_[set].mask == kNone) {
    const std::vector<Item> free = free_items(set);
    walk_all(without(set, free), words);
    for (const Item& item : free) {
      each_free_token(item, [&](TokenId token, ParseSetId) { allow(token, words); });
    }
    for (const TokenId token : next_tokens(set)) allow(token, words);
    if (can_end(set)) {
      for (const TokenId token : vocabulary_->end_ids()) allow(token, words);
    }
    QUIRE_RETURN_IF_ERROR(take_error());
    if (is_overfull()) return overfull();
    keep_mask(set, words);
    return {};
  }
  const Mask& mask = masks_[sets_[set].mask];
  if (!mask.words.empty()) {
    std::copy(mask.words.begin(), mask.words.end(), words.begin());
    return {};
  }
  std::fill(words.begin(), words.end(), 0);
  for (const TokenId token : mask.tokens) allow(token, words);
  return {};
}

}  // namespace quire
