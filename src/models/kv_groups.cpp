#include "models/kv_groups.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace quire {
namespace {

// Layers of one width by what they keep: whether that is a state, else its window.
using LayersByWidth = std::map<std::int64_t, std::vector<std::int32_t>>;
using LayersByKind = std::map<std::pair<bool, std::int32_t>, LayersByWidth>;

std::int64_t slots_of(const LayersByWidth& layers, std::int64_t slot_width) {
  std::int64_t slots = 0;
  for (const auto& [width, list] : layers) slots += ceil_div(std::ssize(list), slot_width / width);
  return slots;
}

// The width of a slot: a small multiple of the widest layer's that wastes the least.
std::int64_t choose_slot_width(const LayersByKind& kinds, std::int64_t widest) {
  constexpr std::int64_t kMostOfTheWidest = 4;
  std::int64_t best = widest;
  std::int64_t least = 0;
  for (std::int64_t times = 1; times <= kMostOfTheWidest; ++times) {
    std::int64_t taken = 0;
    for (const auto& [kind, layers] : kinds) {
      taken += slots_of(layers, times * widest) * times * widest;
    }
    if (times == 1 || taken < least) {
      best = times * widest;
      least = taken;
    }
  }
  return best;
}

}  // namespace

std::int32_t KvPaging::pages_per_block() const {
  std::int32_t pages = 0;
  for (const KvGroupSpec& group : groups) pages += group.pages;
  return pages;
}

std::int32_t KvPaging::state_pages() const {
  std::int32_t pages = 0;
  for (const KvGroupSpec& group : groups) pages += group.state_bytes == 0 ? 0 : group.pages;
  return pages;
}

KvPaging kv_paging(const DecoderSpec& spec, std::int64_t max_model_len,
                   const KvBlockFormat& format) {
  LayersByKind kinds;
  std::int64_t widest = 0;
  const auto number_bytes =
      static_cast<std::int64_t>(dtype_bytes(format.dtype)) * format.block_size;
  for (std::int32_t index = 0; index < spec.num_layers(); ++index) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
    if (layer.kv_layer() != kOwnKeys) continue;
    const std::int32_t window = layer.kv_window() >= max_model_len ? 0 : layer.kv_window();
    const std::int64_t width =
        layer.keeps_state()
            ? ceil_div(static_cast<std::int64_t>(spec.state_bytes(index)), number_bytes)
            : layer.kv_width();
    kinds[{layer.keeps_state(), window}][width].push_back(index);
    widest = std::max(widest, width);
  }
  const std::int64_t slot_width = choose_slot_width(kinds, widest);
  KvPaging paging;
  for (const auto& [kind, layers] : kinds) {
    paging.slots_per_page =
        std::gcd(paging.slots_per_page, static_cast<std::int32_t>(slots_of(layers, slot_width)));
  }
  paging.places.resize(spec.layers.size());
  std::int32_t next = 0;  // slot
  for (const auto& [kind, by_width] : kinds) {
    KvGroupSpec group;
    group.window = kind.second;
    const std::int32_t first = next;
    group.pages = static_cast<std::int32_t>(slots_of(by_width, slot_width)) / paging.slots_per_page;
    const std::int32_t first_page = first / paging.slots_per_page;
    for (const auto& [width, layers] : by_width) {
      const auto parts = static_cast<std::int32_t>(slot_width / width);
      for (std::int32_t i = 0; i < std::ssize(layers); ++i) {
        // Layers that follow one another are in one slot of different pages: what two devices
        // divide between them by layers (LayerSplit) is divided by slots.
        const std::int32_t slot = next - first + i / parts;
        const std::int32_t layer = layers[static_cast<std::size_t>(i)];
        paging.places[static_cast<std::size_t>(layer)] = {.page = first_page + slot % group.pages,
                                                          .slot = slot / group.pages,
                                                          .part = i % parts,
                                                          .parts = parts};
        group.layers.push_back(layer);
        group.state_bytes += spec.state_bytes(layer);
      }
      next += static_cast<std::int32_t>(ceil_div(std::ssize(layers), std::int64_t{parts}));
    }
    std::ranges::sort(group.layers);
    paging.groups.push_back(std::move(group));
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::int32_t source = spec.layers[i].kv_layer();
    if (source != kOwnKeys) paging.places[i] = paging.places[static_cast<std::size_t>(source)];
  }
  return paging;
}

}  // namespace quire
