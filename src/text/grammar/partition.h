// Sets of equal states, as minimization tells them apart. Internal to src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// A partition of 0..n-1 that is refined: elements are marked, then each set with marked elements is
// split in two, of which the smaller gets a new number (Valmari 2012).
class Partition {
 public:
  using Index = std::uint32_t;

  explicit Partition(std::size_t size)
      : elements_(size), location_(size), set_of_(size, 0), first_(1, 0), past_(1), marked_(1, 0) {
    for (std::size_t i = 0; i < size; ++i) elements_[i] = location_[i] = static_cast<Index>(i);
    past_[0] = static_cast<Index>(size);
  }

  // Instead of the one set: one for each key that there is, in the order of keys, which are below
  // `num_keys`.
  void divide(const std::vector<Index>& keys, std::size_t num_keys) {
    std::vector<Index> at(num_keys + 1, 0);
    for (const Index key : keys) ++at[key + 1];
    first_.clear();
    past_.clear();
    std::vector<Index> set_of_key(num_keys, 0);
    for (std::size_t key = 0; key < num_keys; ++key) {
      const Index count = at[key + 1];
      at[key + 1] += at[key];
      if (count == 0) continue;
      set_of_key[key] = static_cast<Index>(first_.size());
      first_.push_back(at[key]);
      past_.push_back(at[key] + count);
    }
    marked_.assign(first_.size(), 0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Index place = at[keys[i]]++;
      elements_[place] = static_cast<Index>(i);
      location_[i] = place;
      set_of_[i] = set_of_key[keys[i]];
    }
  }

  void mark(Index element) {
    const Index set = set_of_[element];
    const Index from = location_[element];
    const Index to = first_[set] + marked_[set];
    elements_[from] = elements_[to];
    location_[elements_[from]] = from;
    elements_[to] = element;
    location_[element] = to;
    if (marked_[set]++ == 0) touched_.push_back(set);
  }

  void split() {
    while (!touched_.empty()) {
      const Index set = touched_.back();
      touched_.pop_back();
      const Index middle = first_[set] + marked_[set];
      marked_[set] = 0;
      if (middle == past_[set]) continue;
      const auto fresh = static_cast<Index>(first_.size());
      if (middle - first_[set] <= past_[set] - middle) {
        first_.push_back(first_[set]);
        past_.push_back(middle);
        first_[set] = middle;
      } else {
        first_.push_back(middle);
        past_.push_back(past_[set]);
        past_[set] = middle;
      }
      marked_.push_back(0);
      for (Index i = first_[fresh]; i < past_[fresh]; ++i) set_of_[elements_[i]] = fresh;
    }
  }

  std::size_t num_sets() const { return first_.size(); }
  Index set_of(std::size_t element) const { return set_of_[element]; }
  std::span<const Index> set(std::size_t index) const {
    return {elements_.data() + first_[index], elements_.data() + past_[index]};
  }

 private:
  std::vector<Index> elements_, location_, set_of_;
  std::vector<Index> first_, past_, marked_;
  std::vector<Index> touched_;
};

}  // namespace quire
