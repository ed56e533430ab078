#include "text/added_tokens.h"

#include <algorithm>

#include "text/char_class.h"
#include "text/utf8.h"

namespace quire {

namespace {

// The character that ends at `end` > 0.
Utf8Char char_before(std::string_view text, std::size_t end) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(4, end); ++size) {
    const Utf8Char c = decode_utf8(text.substr(0, end), end - size);
    if (c.valid && c.size == size) return c;
  }
  return {};
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || (char_flags(char_before(text, begin).code) & kWordChar) == 0) &&
         (end == text.size() || (char_at(text, end).flags & kWordChar) == 0);
}

std::size_t skip_space_left(std::string_view text, std::size_t from, std::size_t end) {
  while (end > from) {
    const Utf8Char c = char_before(text, end);
    if ((char_flags(c.code) & kSpace) == 0 || end - from < c.size) break;
    end -= c.size;
  }
  return end;
}

std::size_t skip_space_right(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const FlaggedChar c = char_at(text, begin);
    if ((c.flags & kSpace) == 0) break;
    begin += c.size;
  }
  return begin;
}

}  // namespace

void SpecialRanges::add(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!ranges_.empty() && ranges_.back().second == begin) {
    ranges_.back().second = end;
  } else {
    ranges_.emplace_back(begin, end);
  }
}

bool SpecialRanges::cover(std::size_t begin, std::size_t end) const {
  const auto after = std::partition_point(ranges_.begin(), ranges_.end(),
                                          [&](const auto& range) { return range.first <= begin; });
  return after != ranges_.begin() && end <= std::prev(after)->second;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::size_t at = 0;
    for (const char byte : tokens_[i].content) {
      const Node* next = child(nodes_[at], byte);
      if (next != nullptr) {
        at = static_cast<std::size_t>(next - nodes_.data());
      } else {
        nodes_[at].children.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
        std::sort(nodes_[at].children.begin(), nodes_[at].children.end());
        at = nodes_.size();
        nodes_.emplace_back();
      }
    }
    if (nodes_[at].token == kNoToken) nodes_[at].token = static_cast<std::int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
  }
}

const AddedTokenMatcher::Node* AddedTokenMatcher::child(const Node& node, char byte) const {
  const auto at = std::partition_point(node.children.begin(), node.children.end(),
                                       [&](const auto& entry) { return entry.first < byte; });
  if (at == node.children.end() || at->first != byte) return nullptr;
  return &nodes_[at->second];
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t begin,
                                                const SpecialRanges& special_ranges) const {
  const AddedToken* longest = nullptr;
  const Node* node = &nodes_[0];
  for (std::size_t i = begin; i < text.size(); ++i) {
    node = child(*node, text[i]);
    if (node == nullptr) break;
    if (node->token == kNoToken) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(node->token)];
    if (!token.special || special_ranges.cover(begin, i + 1)) longest = &token;
  }
  return longest;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::next(
    std::string_view text, std::size_t from, std::size_t taken,
    const SpecialRanges& special_ranges) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size();) {
    const AddedToken* token = begins_[static_cast<unsigned char>(text[begin])]
                                  ? longest_at(text, begin, special_ranges)
                                  : nullptr;
    if (token == nullptr) {
      ++begin;
      continue;
    }
    const std::size_t end = begin + token->content.size();
    if (token->single_word && !stands_alone(text, begin, end)) {
      begin = end;
      continue;
    }
    return Match{token->lstrip ? skip_space_left(text, taken, begin) : begin,
                 token->rstrip ? skip_space_right(text, end) : end, end, token->id};
  }
  return std::nullopt;
}

}  // namespace quire
