#include "text/grammar/parse_closing.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "text/grammar/grammar_matcher.h"
#include "text/grammar/index_by_key.h"
#include "text/grammar/parse_free_tokens.h"

namespace quire {

namespace {

std::uint32_t plus(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t sum = std::uint64_t{a} + b;
  const bool never = a == ParseClosing::kNever || b == ParseClosing::kNever;
  return never || sum > GrammarMatcher::kMostClosingBytes ? ParseClosing::kNever
                                                          : static_cast<std::uint32_t>(sum);
}

// Letters first, then digits: what has to be spelled and may be anything is a word.
std::uint32_t rank_of(std::uint8_t byte) {
  if (byte >= 'a' && byte <= 'z') return byte - std::uint32_t{'a'};
  if (byte >= '0' && byte <= '9') return 0x20U + byte;
  return 0x100U + byte;
}

// The byte of a range that comes first.
std::uint8_t first_ranked(std::uint8_t first, std::uint8_t last) {
  std::uint8_t best = first;
  for (unsigned byte = first; byte <= last; ++byte) {
    if (rank_of(static_cast<std::uint8_t>(byte)) < rank_of(best)) {
      best = static_cast<std::uint8_t>(byte);
    }
  }
  return best;
}

}  // namespace

ParseClosing::ParseClosing(ParseStore& store) : store_(store) { measure_states(); }

void ParseClosing::measure_states() {
  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t target = 0;
    std::uint32_t rule = kNever;  // that is called
  };
  const RuleAutomata& automata = *store_.automata_;
  const auto num_rules = static_cast<std::uint32_t>(automata.rules.size());
  std::vector<Edge> edges;
  std::vector<std::uint32_t> targets, callees;
  const auto add = [&](std::uint32_t from, std::uint32_t target, std::uint32_t rule) {
    edges.push_back({from, target, rule});
    targets.push_back(target);
    callees.push_back(std::min(rule, num_rules));
  };
  for (std::uint32_t state = 0; state < automata.num_states(); ++state) {
    for (const auto& edge : automata.bytes[state]) add(state, edge.target, kNever);
    for (const auto& edge : automata.tokens[state]) add(state, edge.target, kNever);
    for (const auto& edge : automata.calls[state]) add(state, edge.target, edge.rule);
  }
  const std::size_t num_states = automata.num_states() + automata.open.size();
  const IndexByKey by_target(num_states, targets);
  const IndexByKey by_callee(num_rules + std::size_t{1}, callees);
  using Entry = std::pair<std::uint32_t, std::uint32_t>;  // bytes, state
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  state_bytes_.assign(num_states, kNever);
  for (std::uint32_t state = 0; state < automata.num_states(); ++state) {
    if (automata.accepting[state]) queue.push({0, state});
  }
  for (const RuleAutomata::OpenRule& open : automata.open) {
    const std::uint32_t start = automata.rules[open.rule].start;
    queue.push({bytes_to_rule_end(start), start});
  }
  const auto offer = [&](const Edge& edge) {
    if (state_bytes_[edge.from] != kNever) return;
    const std::uint32_t here =
        edge.rule == kNever ? 1 : state_bytes_[automata.rules[edge.rule].start];
    const std::uint32_t value = plus(here, state_bytes_[edge.target]);
    if (value != kNever) queue.push({value, edge.from});
  };
  while (!queue.empty()) {
    const auto [value, state] = queue.top();
    queue.pop();
    if (state_bytes_[state] != kNever) continue;
    state_bytes_[state] = value;
    for (const std::uint32_t edge : by_target.of(state)) offer(edges[edge]);
    const std::uint32_t rule = store_.rule_of(state);
    if (automata.rules[rule].start != state) continue;
    for (const std::uint32_t edge : by_callee.of(rule)) offer(edges[edge]);
  }
  store_.bytes_ += state_bytes_.size() * sizeof(std::uint32_t);
}

ParseClosing::Place& ParseClosing::place(ParseSetId set) {
  if (set >= places_.size()) {
    const std::size_t before = places_.size();
    places_.resize(store_.sets_.size());
    store_.bytes_ += (places_.size() - before) * sizeof(Place);
  }
  return places_[set];
}

std::uint32_t ParseClosing::bytes_to_rule_end(std::uint32_t state) const {
  const OpenStates& open = store_.open_;
  if (!open.has(state)) return state_bytes_[state];
  return static_cast<std::uint32_t>(open.automaton(state).way_out(open.value(state)).size());
}

// From where `item` is, were it in `state`.
std::uint32_t ParseClosing::bytes_behind(const ParseStore::Item& item, std::uint32_t state) {
  if (!store_.fits(store_.depth_of(item), store_.height(state))) return kNever;
  return plus(bytes_to_rule_end(state), behind_rule(item.origin, store_.rule_of(state)));
}

std::uint32_t ParseClosing::behind_rule(ParseSetId origin, std::uint32_t rule) {
  if (origin == ParseStore::kDead) return 0;
  if (!place(origin).has_callers) find_callers(origin);
  for (const auto& [callee, bytes] : place(origin).callers) {
    if (callee == rule) return bytes;
  }
  return kNever;
}

void ParseClosing::find_callers(ParseSetId set) {
  // Calls from rules that begin here take each other into account until nothing gets shorter.
  place(set).has_callers = true;
  std::vector<RuleBytes> found;
  const auto items = store_.items_of(set);
  for (bool changed = true; changed;) {
    changed = false;
    for (const ParseStore::Item& item : items) {
      for (const RuleAutomata::CallEdge& call : store_.calls_of(item.state)) {
        const std::uint32_t bytes = bytes_behind(item, call.target);
        if (bytes == kNever) continue;
        const auto known = std::ranges::find(found, call.rule, &RuleBytes::first);
        if (known != found.end() && known->second <= bytes) continue;
        if (known == found.end()) {
          found.emplace_back(call.rule, bytes);
        } else {
          known->second = bytes;
        }
        changed = true;
      }
    }
    place(set).callers = found;
  }
  store_.bytes_ += found.size() * sizeof(found[0]);
}

std::uint32_t ParseClosing::bytes_to_end(ParseSetId set) {
  if (place(set).bytes) return *place(set).bytes;
  std::uint32_t least = store_.can_end(set) ? 0 : kNever;
  if (least != 0) {
    for (const ParseStore::Item& item : store_.items_of(set)) {
      least = std::min(least, bytes_behind(item, item.state));
    }
  }
  place(set).bytes = least;
  return least;
}

ParseClosing::Step ParseClosing::find_step(ParseSetId set) {
  if (place(set).step) return *place(set).step;
  const std::uint32_t least = bytes_to_end(set);
  std::optional<std::uint8_t> byte;
  std::optional<TokenId> token;
  for (const ParseStore::Item& item : store_.items_of(set)) {
    const auto offer = [&](std::uint8_t first, std::uint32_t target) {
      if (plus(1, bytes_behind(item, target)) != least) return;
      if (!byte || rank_of(first) < rank_of(*byte)) byte = first;
    };
    if (store_.open_.has(item.state)) {
      const std::string way =
          store_.open_.automaton(item.state).way_out(store_.open_.value(item.state));
      if (way.empty()) continue;
      const auto first = static_cast<std::uint8_t>(way[0]);
      offer(first, store_.open_.next(item.state, first));
    }
    for (const RuleAutomata::ByteEdge& edge : store_.bytes_of(item.state)) {
      offer(first_ranked(edge.first, edge.last), edge.target);
    }
    for (const RuleAutomata::TokenEdge& edge : store_.tokens_of(item.state)) {
      if (plus(1, bytes_behind(item, edge.target)) != least) continue;
      if (!token || edge.token < *token) token = edge.token;
    }
  }
  Step step;
  if (byte) {
    step = {.next = store_.next(set, *byte), .byte = *byte};
  } else if (token) {
    step = {.next = store_.next_token(set, *token), .is_token = true};
  }
  // What max_depth cuts off is no way on.
  if (step.next != ParseStore::kDead && plus(1, bytes_to_end(step.next)) != least) step = {};
  place(set).step = step;
  return step;
}

// The closing text's tokens, where those of what is behind each of its first bytes are known as far
// as a token reaches.
std::uint32_t ParseClosing::split(ParseSetId set) {
  const Step first = find_step(set);
  if (first.next == ParseStore::kDead) return kNever;
  if (first.is_token) return plus(1, tokens_to_end(first.next));
  const std::vector<TokenId> own = store_.next_tokens(set);
  std::uint32_t least = kNever;
  const auto nodes = store_.vocabulary_->trie().nodes();
  std::size_t begin = 0;
  std::size_t end = nodes.size();
  for (ParseSetId at = set; bytes_to_end(at) > 0;) {
    const Step step = find_step(at);
    if (step.next == ParseStore::kDead || step.is_token) break;
    std::size_t node = begin;
    while (node < end && nodes[node].byte != step.byte) node = nodes[node].end;
    if (node >= end) break;
    at = step.next;
    const TokenId token = nodes[node].token;
    const bool is_text = token >= 0 && !std::ranges::binary_search(own, token);
    if (is_text) least = std::min(least, plus(1, tokens_to_end(at)));
    begin = node + 1;
    end = nodes[node].end;
  }
  return least;
}

std::uint32_t ParseClosing::tokens_to_end(ParseSetId set) {
  if (place(set).tokens) return *place(set).tokens;
  // From the end back, so that the calls do not nest.
  std::vector<ParseSetId> way;
  for (ParseSetId at = set; at != ParseStore::kDead && !place(at).tokens;) {
    way.push_back(at);
    const std::uint32_t bytes = bytes_to_end(at);
    if (bytes == 0 || bytes == kNever) {
      place(at).tokens = bytes;
      break;
    }
    at = find_step(at).next;
  }
  for (auto at = way.rbegin(); at != way.rend(); ++at) {
    if (place(*at).tokens) continue;
    const std::uint32_t tokens = split(*at);
    place(*at).tokens = tokens;
  }
  return *place(set).tokens;
}

// The first bytes of the closing text, at most `most`.
std::string ParseClosing::closing_text(ParseSetId set, std::size_t most) {
  std::string text;
  while (text.size() < most && bytes_to_end(set) > 0) {
    const Step step = find_step(set);
    if (step.next == ParseStore::kDead || step.is_token) break;
    text += static_cast<char>(step.byte);
    set = step.next;
  }
  return text;
}

// Calls visit(token, the tokens behind it, at most) for those that may follow a free item.
template <typename Visit>
Status ParseClosing::each_free_token(ParseSetId set, const ParseStore::Item& item, Visit visit) {
  const std::uint32_t most_bytes = plus(store_.open_.automaton(item.state).max_way_out(),
                                        behind_rule(item.origin, store_.rule_of(item.state)));
  const std::string closing = closing_text(set, store_.vocabulary_->trie().max_depth());
  store_.each_free_token(item, [&](TokenId token, ParseSetId behind) {
    if (behind != ParseStore::kNone) {
      visit(token, tokens_to_end(behind));
      return;
    }
    const std::string_view bytes = store_.vocabulary_->bytes(token);
    visit(token, closing.starts_with(bytes) ? tokens_to_end(store_.next(set, bytes)) : most_bytes);
  });
  if (store_.is_overfull()) return store_.overfull();
  return store_.take_error();
}

// Calls visit(token, the set behind it) for those of `words` that are not the end.
template <typename Visit>
Status ParseClosing::each_token(ParseSetId set, std::span<const std::uint32_t> words, Visit visit) {
  const auto is_there = [&](TokenId token) {
    const auto id = static_cast<std::size_t>(token);
    return (words[id / 32] >> (id % 32) & 1) != 0;
  };
  // Tokens that come by themselves are not text only, and looked at last.
  const std::vector<TokenId> own = store_.next_tokens(set);
  const auto is_text = [&](TokenId token) {
    return is_there(token) && !std::ranges::binary_search(own, token);
  };
  const TokenTrie& trie = store_.vocabulary_->trie();
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  std::vector<ParseSetId> path(trie.max_depth() + 1);
  path[0] = set;
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const ParseSetId next = store_.next(path[node.depth - std::size_t{1}], node.byte);
    if (next == ParseStore::kDead) {
      i = node.end;
      continue;
    }
    path[node.depth] = next;
    ++i;
    if (node.token < 0) continue;
    if (is_text(node.token)) visit(node.token, next);
    if (!trie.has_alike()) continue;
    for (const auto& [token, other] : trie.alike(node.token)) {
      if (is_text(other)) visit(other, next);
    }
    if (store_.is_overfull()) return store_.overfull();
  }
  for (const TokenId token : own) {
    if (is_there(token)) visit(token, store_.next_token(set, token));
  }
  return store_.take_error();
}

Status ParseClosing::keep_closable(ParseSetId set, std::uint32_t most,
                                   std::span<std::uint32_t> words) {
  if (place(set).farthest && *place(set).farthest <= most) return {};
  std::uint32_t farthest = 0;
  std::vector<std::uint32_t> within(words.size(), 0);
  std::vector<std::uint32_t> beyond(words.size(), 0);
  const auto sort = [&](TokenId token, std::uint32_t tokens) {
    farthest = std::max(farthest, tokens);
    const auto id = static_cast<std::size_t>(token);
    (tokens > most ? beyond : within)[id / 32] |= std::uint32_t{1} << (id % 32);
  };
  const std::vector<ParseStore::Item> free = store_.free_items(set);
  for (const ParseStore::Item& item : free) {
    QUIRE_RETURN_IF_ERROR(each_free_token(set, item, sort));
  }
  const ParseSetId others = store_.without(set, free);
  QUIRE_RETURN_IF_ERROR(each_token(
      others, words, [&](TokenId token, ParseSetId next) { sort(token, tokens_to_end(next)); }));
  place(set).farthest = farthest;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] &= ~(beyond[i] & ~within[i]);
  return {};
}

}  // namespace quire
