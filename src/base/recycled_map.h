// A hash map by request id whose nodes are kept when entries leave, so that in the long run entries
// come and go without an allocation. A new entry is a former one: its value is as its last owner
// left it, so that vectors keep their capacity.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire {

template <typename Value>
class RecycledMap {
 public:
  using Map = std::unordered_map<RequestId, Value>;

  // Makes `count` entries ready in an empty map, new or made ready before, each prepared by
  // `prepare`.
  template <typename Prepare>
  void reserve(std::size_t count, Prepare prepare) {
    map_.reserve(count);
    spare_.reserve(count);
    for (RequestId id = 0; id < count; ++id) prepare(insert(id));
    for (RequestId id = 0; id < count; ++id) erase(id);
  }

  // The key must be new.
  Value& insert(RequestId id) {
    if (spare_.empty()) return map_[id];
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = id;
    return map_.insert(std::move(node)).position->second;
  }
  // The key must be there.
  void erase(RequestId id) { spare_.push_back(map_.extract(id)); }

  Value* find(RequestId id) {
    const auto found = map_.find(id);
    return found == map_.end() ? nullptr : &found->second;
  }
  const Value* find(RequestId id) const {
    const auto found = map_.find(id);
    return found == map_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return map_.size(); }
  typename Map::const_iterator begin() const { return map_.begin(); }
  typename Map::const_iterator end() const { return map_.end(); }

 private:
  Map map_;
  std::vector<typename Map::node_type> spare_;
};

}  // namespace quire
