#include "models/kv_groups.h"

#include <map>
#include <numeric>
#include <utility>

namespace quire {

std::int32_t KvPaging::pages_per_block() const {
  std::int32_t pages = 0;
  for (const KvGroupSpec& group : groups) pages += pages_per_block(group);
  return pages;
}

KvPaging kv_paging(const DecoderSpec& spec, std::int64_t max_model_len) {
  std::map<std::int32_t, std::vector<std::int32_t>> layers_of_window;
  for (std::int32_t layer = 0; layer < spec.num_layers(); ++layer) {
    const std::int32_t window =
        spec.layers[static_cast<std::size_t>(layer)].attention().kept_tokens();
    layers_of_window[window >= max_model_len ? 0 : window].push_back(layer);
  }
  KvPaging paging;
  for (auto& [window, layers] : layers_of_window) {
    const auto size = static_cast<std::int32_t>(layers.size());
    paging.layers_per_page = std::gcd(paging.layers_per_page, size);
    paging.groups.push_back({window, std::move(layers)});
  }
  paging.places.resize(spec.layers.size());
  std::int32_t next = 0;
  for (const KvGroupSpec& group : paging.groups) {
    for (const std::int32_t layer : group.layers) {
      paging.places[static_cast<std::size_t>(layer)] = {next / paging.layers_per_page,
                                                        next % paging.layers_per_page};
      ++next;
    }
  }
  return paging;
}

}  // namespace quire
