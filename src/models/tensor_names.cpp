#include "models/tensor_names.h"

#include <fmt/format.h>

namespace quire {

std::string TensorNames::name(TensorRole role, std::int64_t layer, std::int64_t expert) const {
  for (const std::span<const TensorName> names : {own, shared}) {
    for (const TensorName& name : names) {
      if (name.role != role) continue;
      const std::string full = fmt::format(fmt::runtime(name.pattern), fmt::arg("layer", layer),
                                           fmt::arg("expert", expert));
      if (!full.starts_with(prefix.own)) return full;
      return fmt::format("{}{}", prefix.part, full.substr(prefix.own.size()));
    }
  }
  return {};
}

}  // namespace quire
