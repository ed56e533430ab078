#include "text/grammar/parse_store.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/grammar/parse_closing.h"

namespace quire {

namespace {

constexpr std::size_t kFirstTableSize = 1024;
// Of a set's items, from which on they are found by hashing rather than by looking at each.
constexpr std::size_t kFewItems = 16;

std::uint64_t mix(std::uint64_t value) {
  value *= 0x9E3779B97F4A7C15U;
  return value ^ (value >> 32);
}

}  // namespace

ParseStore::ParseStore(const RuleAutomata& automata, const GrammarVocabulary& vocabulary,
                       const GrammarLimits& limits)
    : automata_(&automata),
      vocabulary_(&vocabulary),
      limits_(&limits),
      open_(automata),
      table_(kFirstTableSize, kDead),
      reach_(vocabulary.slices().size()) {
  sets_.emplace_back();  // kDead
  kernel_ = {{automata.rules[automata.root].start, kDead}};
  intern(kernel_);
}

ParseStore::~ParseStore() = default;

ParseClosing& ParseStore::closing() {
  if (closing_ == nullptr) closing_ = std::make_unique<ParseClosing>(*this);
  return *closing_;
}

std::size_t ParseStore::hash_of(std::span<const Item> kernel) {
  std::uint64_t hash = kernel.size();
  for (const Item& item : kernel) {
    hash = mix(hash ^ (std::uint64_t{item.state} << 32 | item.origin));
  }
  return static_cast<std::size_t>(hash);
}

void ParseStore::grow_table() {
  table_.assign(table_.size() * 2, kDead);
  for (ParseSetId set = kFirst; set < sets_.size(); ++set) {
    std::size_t at = hash_of(kernel_of(set)) & (table_.size() - 1);
    while (table_[at] != kDead) at = (at + 1) & (table_.size() - 1);
    table_[at] = set;
  }
}

void ParseStore::take_back_ends(std::vector<Item>& kernel) {
  const auto ends = [&](const Item& item) { return item.origin != kDead && accepts(item.state); };
  if (std::none_of(kernel.begin(), kernel.end(), ends)) return;
  load_closure(kernel);
  complete();
  kernel.clear();
  for (const Item& item : closure_) {
    if (leads_on(item) || item.origin == kDead) kernel.push_back(item);
  }
  std::sort(kernel.begin(), kernel.end());
}

ParseSetId ParseStore::intern(std::vector<Item>& kernel) {
  if (kernel.size() > 1) {
    std::sort(kernel.begin(), kernel.end());
    kernel.erase(std::unique(kernel.begin(), kernel.end()), kernel.end());
  }
  take_back_ends(kernel);
  if (kernel.empty()) return kDead;
  std::size_t at = hash_of(kernel) & (table_.size() - 1);
  for (; table_[at] != kDead; at = (at + 1) & (table_.size() - 1)) {
    const std::span<const Item> known = kernel_of(table_[at]);
    if (std::equal(known.begin(), known.end(), kernel.begin(), kernel.end())) return table_[at];
  }
  const auto id = static_cast<ParseSetId>(sets_.size());
  table_[at] = id;
  Set set;
  set.kernel = static_cast<std::uint32_t>(pool_.size());
  set.kernel_size = static_cast<std::uint32_t>(kernel.size());
  pool_.insert(pool_.end(), kernel.begin(), kernel.end());
  sets_.push_back(set);
  close_newest();
  bytes_ += sizeof(Set) + 2 * sizeof(ParseSetId) +
            (kernel.size() + sets_.back().num_items) * sizeof(Item);
  if (sets_.size() * 2 > table_.size()) grow_table();
  return id;
}

// Adds what is not yet among closure_.
void ParseStore::add_item(Item item) {
  if (closure_.size() <= kFewItems) {
    if (std::find(closure_.begin(), closure_.end(), item) != closure_.end()) return;
    closure_.push_back(item);
    return;
  }
  // A table of places in closure_ plus one, made anew where it is too small.
  const auto place_of = [&](const Item& wanted) -> std::uint32_t& {
    const std::uint64_t hash = mix(std::uint64_t{wanted.state} << 32 | wanted.origin);
    std::size_t at = static_cast<std::size_t>(hash) & (item_places_.size() - 1);
    while (item_places_[at] != 0 && closure_[item_places_[at] - 1] != wanted) {
      at = (at + 1) & (item_places_.size() - 1);
    }
    return item_places_[at];
  };
  if (closure_.size() == kFewItems + 1 || closure_.size() * 2 > item_places_.size()) {
    item_places_.assign(std::max<std::size_t>(64, item_places_.size()), 0);
    while (closure_.size() * 4 > item_places_.size()) item_places_.resize(item_places_.size() * 2);
    for (std::size_t i = 0; i < closure_.size(); ++i) {
      place_of(closure_[i]) = static_cast<std::uint32_t>(i + 1);
    }
  }
  std::uint32_t& place = place_of(item);
  if (place != 0) return;
  closure_.push_back(item);
  place = static_cast<std::uint32_t>(closure_.size());
}

void ParseStore::load_closure(std::span<const Item> items) {
  closure_.clear();
  if (items.size() <= kFewItems) {
    closure_.assign(items.begin(), items.end());
  } else {
    for (const Item& item : items) add_item(item);  // into the table
  }
}

bool ParseStore::is_too_ambiguous() {
  if (closure_.size() <= limits_->max_set_items) return false;
  error_ = Status::resource_exhausted(
      fmt::format("the grammar has more than {} readings at one place of the text (limit "
                  "max_set_items)",
                  limits_->max_set_items),
      "make it less ambiguous");
  has_failed_ = true;
  closure_.clear();
  return true;
}

// To the items of older sets all that follow rules which end here, or may be empty. Whether the
// text can end.
bool ParseStore::complete() {
  const RuleAutomata& automata = *automata_;
  bool can_end = false;
  for (std::size_t i = 0; i < closure_.size() && !is_too_ambiguous(); ++i) {
    const Item item = closure_[i];
    if (accepts(item.state)) {
      if (item.origin == kDead) {
        can_end = true;
      } else {
        const std::uint32_t rule = rule_of(item.state);
        for (const Item& caller : items_of(item.origin)) {
          for (const RuleAutomata::CallEdge& call : calls_of(caller.state)) {
            if (call.rule == rule && fits(depth_of(caller), automata.height[call.target])) {
              add_item({call.target, caller.origin});
            }
          }
        }
      }
    }
    for (const RuleAutomata::CallEdge& call : calls_of(item.state)) {
      if (automata.rules[call.rule].nullable &&
          fits(depth_of(item), automata.height[call.target])) {
        add_item({call.target, item.origin});
      }
    }
  }
  return can_end;
}

void ParseStore::close_newest() {
  const auto self = static_cast<ParseSetId>(sets_.size() - 1);
  const RuleAutomata& automata = *automata_;
  load_closure(kernel_of(self));
  const bool can_end = complete();
  // Rules that have come to their end here count no more: what follows stands where they were
  // called, so that calls one after the other do not nest ever deeper.
  std::uint32_t depth = 0;
  for (const Item& item : closure_) {
    if (!calls_of(item.state).empty()) depth = std::max(depth, depth_of(item));
  }
  sets_[self].depth = depth;
  for (std::size_t i = 0; i < closure_.size() && !is_too_ambiguous(); ++i) {
    const Item item = closure_[i];
    for (const RuleAutomata::CallEdge& call : calls_of(item.state)) {
      const RuleAutomata::Rule& rule = automata.rules[call.rule];
      // What is begun has to be brought to its end within the limit, the rule and what follows it.
      if (!fits(depth_of(item), automata.height[call.target])) continue;
      if (rule.nullable) add_item({call.target, item.origin});
      if (fits(depth + 1, rule.height)) add_item({rule.start, self});
    }
  }
  Set& set = sets_[self];
  set.can_end = can_end;
  set.items = static_cast<std::uint32_t>(pool_.size());
  for (const Item& item : closure_) {
    if (leads_on(item)) pool_.push_back(item);
  }
  set.num_items = static_cast<std::uint32_t>(pool_.size()) - set.items;
}

ParseSetId ParseStore::find_next(ParseSetId set, std::uint8_t byte_class) {
  if (set == kDead) return kDead;
  const std::uint8_t byte = automata_->class_member[byte_class];
  kernel_.clear();
  for (const Item& item : items_of(set)) {
    const std::uint32_t target = next_state(item.state, byte);
    if (target == RuleAutomata::kNever) continue;
    if (fits(depth_of(item), height(target))) kernel_.push_back({target, item.origin});
  }
  const ParseSetId found = intern(kernel_);
  if (sets_[set].row == kNone) {
    sets_[set].row = static_cast<std::uint32_t>(rows_.size());
    rows_.resize(rows_.size() + automata_->class_member.size(), kNone);
    bytes_ += automata_->class_member.size() * sizeof(ParseSetId);
  }
  rows_[sets_[set].row + byte_class] = found;
  return found;
}

ParseSetId ParseStore::next(ParseSetId set, std::string_view bytes) {
  for (const char byte : bytes) {
    set = next(set, static_cast<std::uint8_t>(byte));
    if (set == kDead) break;
  }
  return set;
}

ParseSetId ParseStore::next_token(ParseSetId set, TokenId token) {
  const std::string_view bytes = vocabulary_->bytes(token);
  const ParseSetId by_bytes = bytes.empty() ? kDead : next(set, bytes);
  kernel_.clear();
  for (const Item& item : items_of(set)) {
    for (const RuleAutomata::TokenEdge& edge : tokens_of(item.state)) {
      if (edge.token != token) continue;
      if (!fits(depth_of(item), automata_->height[edge.target])) continue;
      kernel_.push_back({edge.target, item.origin});
    }
  }
  if (kernel_.empty()) return by_bytes;
  if (by_bytes != kDead) {
    const std::span<const Item> more = kernel_of(by_bytes);
    kernel_.insert(kernel_.end(), more.begin(), more.end());
  }
  return intern(kernel_);
}

ParseStore::NextBytes ParseStore::next_bytes(ParseSetId set) const {
  NextBytes result;
  const auto add = [&](std::uint8_t first, std::uint8_t last) {
    const bool same = result.count == 0 || (result.count == 1 && result.byte == first);
    result = {same && first == last ? 1 : 2, first};
  };
  for (const Item& item : items_of(set)) {
    if (open_.has(item.state)) {
      for (const char c : open_.next_bytes(item.state, 2)) {
        add(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c));
      }
    }
    for (const RuleAutomata::ByteEdge& edge : bytes_of(item.state)) {
      if (fits(depth_of(item), automata_->height[edge.target])) add(edge.first, edge.last);
    }
    if (result.count == 2) break;
  }
  return result;
}

std::vector<TokenId> ParseStore::next_tokens(ParseSetId set) const {
  std::vector<TokenId> tokens;
  for (const Item& item : items_of(set)) {
    for (const RuleAutomata::TokenEdge& edge : tokens_of(item.state)) {
      if (fits(depth_of(item), automata_->height[edge.target])) tokens.push_back(edge.token);
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

Status ParseStore::take_error() { return std::exchange(error_, {}); }

std::vector<ParseSetId> ParseStore::adopt(const ParseStore& other,
                                          std::span<const ParseSetId> sets) {
  // All that they refer to, older ones first.
  std::vector<ParseSetId> needed(sets.begin(), sets.end());
  std::vector<bool> seen(other.sets_.size(), false);
  for (const ParseSetId set : needed) seen[set] = true;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    for (const Item& item : other.kernel_of(needed[i])) {
      if (seen[item.origin]) continue;
      seen[item.origin] = true;
      needed.push_back(item.origin);
    }
  }
  std::sort(needed.begin(), needed.end());
  std::vector<ParseSetId> here(other.sets_.size(), kDead);
  for (const ParseSetId set : needed) {
    if (set == kDead || here[set] != kDead) continue;
    std::vector<Item> kernel;
    for (const Item& item : other.kernel_of(set)) {
      kernel.push_back({open_.adopt(other.open_, item.state), here[item.origin]});
    }
    here[set] = intern(kernel);
  }
  std::vector<ParseSetId> result;
  for (const ParseSetId set : sets) result.push_back(here[set]);
  return result;
}

}  // namespace quire
