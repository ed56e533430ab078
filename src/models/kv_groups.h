// Which layers of a model keep the same for later tokens, and how their blocks lie in pages of one
// pool.
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec.h"
#include "tensor/dtype.h"

namespace quire {

// Layers that keep keys and values of the same tokens, or a state of fixed size. A block of the
// group has `pages` pages.
struct KvGroupSpec {
  std::int32_t window = 0;           // AttentionSpec::kept_tokens()
  std::uint64_t state_bytes = 0;     // of a sequence's state, in all layers; 0: keys and values
  std::vector<std::int32_t> layers;  // those that have keys and values of their own
  std::int32_t pages = 0;
};

// The size of a number of each token in a block of keys and values.
struct KvBlockFormat {
  std::int32_t block_size = 16;
  DType dtype = DType::kBF16;
};

// Pages are of equal bytes whatever their group: of as many slots as divide every group. A slot is
// a block of one layer, or, where layers differ in width (numbers and sizes of their KV heads), of
// as many narrow ones as the widest has room for. A state lies in one slot, too: its width is its
// number of bytes.
struct KvPaging {
  struct Place {
    std::int32_t page = 0;   // of the pages of a block of all groups, in order of the groups
    std::int32_t slot = 0;   // of the page; later layers of a group have no lower one
    std::int32_t part = 0;   // of the slot,
    std::int32_t parts = 1;  // which has so many of this layer's width
  };

  // The one that keeps all first, then from the smallest window, then states.
  std::vector<KvGroupSpec> groups;
  std::int32_t slots_per_page = 0;
  std::vector<Place> places;  // of each layer; of one that reads another's, the other's

  std::int32_t pages_per_block() const;  // of all groups
  std::int32_t state_pages() const;      // of these, the last ones, which contain states
};

// A window that no sequence of `max_model_len` tokens leaves is none.
KvPaging kv_paging(const DecoderSpec& spec, std::int64_t max_model_len,
                   const KvBlockFormat& format = {});

}  // namespace quire
