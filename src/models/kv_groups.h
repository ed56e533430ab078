// Which layers of a model keep the same for later tokens, and how their blocks lie in pages of one
// pool.
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec.h"

namespace quire {

// Layers that keep keys and values of the same tokens. A block of the group takes one page for
// every layers_per_page of them.
struct KvGroupSpec {
  std::int32_t window = 0;  // AttentionSpec::kept_tokens()
  std::vector<std::int32_t> layers;
};

// Pages are of equal bytes whatever their group: of as many layers as divide every group.
struct KvPaging {
  struct Place {
    std::int32_t page = 0;  // of the pages that a block of all groups takes, in order of the groups
    std::int32_t slot = 0;  // layer of the page
  };

  std::vector<KvGroupSpec> groups;  // the one that keeps all first, then from the smallest window
  std::int32_t layers_per_page = 0;
  std::vector<Place> places;  // of each layer

  std::int32_t pages_per_block(const KvGroupSpec& group) const {
    return static_cast<std::int32_t>(group.layers.size()) / layers_per_page;
  }
  std::int32_t pages_per_block() const;  // of all groups
};

// A window that no sequence of `max_model_len` tokens leaves is none.
KvPaging kv_paging(const DecoderSpec& spec, std::int64_t max_model_len);

}  // namespace quire
