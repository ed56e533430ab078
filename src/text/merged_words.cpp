#include "text/merged_words.h"

#include <algorithm>

namespace quire {

MergedWords::MergedWords() {
  for (std::size_t left = 0; left < 256; ++left) {
    for (std::size_t continuation = 0x80; continuation < 0xC0; ++continuation) {
      joined_.set(left << 8 | continuation);
    }
  }
}

void MergedWords::add(std::string_view left, std::string_view right, std::uint32_t rank) {
  joined_.set(index(left.back(), right.front()));
  const bool to_space = right.starts_with(kSpaceSymbol);
  if (!left.ends_with(kSpaceSymbol)) {
    joins_to_space_ |= to_space;
    return;
  }
  std::uint32_t& best = left == kSpaceSymbol && right == kSpaceSymbol ? pair_rank_ : other_rank_;
  best = std::min(best, rank);
  left.remove_suffix(kSpaceSymbol.size());
  joins_from_spaces_ |= left.ends_with(kSpaceSymbol) && !to_space;
}

void MergedWords::read_spaces() {
  reads_spaces_ = true;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char other = static_cast<char>(byte);
    joined_[index(' ', other)] = joined_[index(kSpaceSymbol.back(), other)];
    joined_[index(other, ' ')] = false;  // it begins a word, or goes on with a run of them
  }
}

}  // namespace quire
