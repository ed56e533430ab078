// Where words end in a text that no pre-tokenizer cuts: at places that no merge crosses. What lies
// between two of them has the same tokens whatever is around it, so that it can be merged, and
// remembered, by itself. Internal to src/text.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, SentencePiece's space

class MergedWords {
 public:
  MergedWords();

  // Every merge must be told, with its parts and its rank.
  void add(std::string_view left, std::string_view right, std::uint32_t rank);

  // Whether a word ends before every run of U+2581. Without that there is no end() to ask for.
  bool end_before_spaces() const { return !joins_to_space_; }

  // Words have no other ends than those around spaces: something else joins what lies between.
  void join_all() { joined_.set(); }

  // A space in a text is U+2581, too, from now on.
  void read_spaces();
  bool reads_spaces() const { return reads_spaces_; }

  // Of the word that begins at `begin`, where the text begins or another word ends.
  std::size_t end(std::string_view text, std::size_t begin) const {
    std::size_t at = begin;
    std::size_t spaces = 0;
    for (std::size_t size = 0; (size = space_size(text, at)) != 0; at += size) ++spaces;
    // All of the run has become pairs before anything behind it can join one of its symbols.
    if (spaces != 0 && spaces % 2 == 0 && spaces_pair_first()) return at;
    if (spaces == 0) ++at;
    while (at < text.size() && joined_[index(text[at - 1], text[at])] &&
           !(text[at] == kSpaceSymbol.front() && space_size(text, at) != 0)) {
      ++at;
    }
    return at;
  }

 private:
  static std::size_t index(char left, char right) {
    return std::size_t{static_cast<unsigned char>(left)} << 8 | static_cast<unsigned char>(right);
  }

  // Of the U+2581 at `at`; 0: there is none.
  std::size_t space_size(std::string_view text, std::size_t at) const {
    if (at >= text.size()) return 0;
    if (text[at] == ' ') return reads_spaces_ ? 1 : 0;
    return text.substr(at).starts_with(kSpaceSymbol) ? kSpaceSymbol.size() : 0;
  }

  // Whether two U+2581 merge before any of them merges with anything else, and no two of them that
  // have merged are ever joined to another character behind them.
  bool spaces_pair_first() const { return pair_rank_ < other_rank_ && !joins_from_spaces_; }

  // The last byte of the left part of a merge and the first of the right one; bytes of a character.
  std::bitset<65536> joined_;
  std::uint32_t pair_rank_ = UINT32_MAX;   // of two U+2581
  std::uint32_t other_rank_ = UINT32_MAX;  // the best of another merge whose left part ends in one
  bool joins_to_space_ = false;            // another character to a U+2581 behind it
  bool joins_from_spaces_ = false;         // two U+2581 to another character behind them
  bool reads_spaces_ = false;
};

}  // namespace quire
