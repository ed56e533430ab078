#include "models/tensor_names.h"

#include <fmt/format.h>

namespace quire {

std::string TensorNames::placed(std::string_view name) const {
  if (!name.starts_with(prefix.own)) return std::string(name);
  return fmt::format("{}{}", prefix.part, name.substr(prefix.own.size()));
}

std::string TensorNames::name(TensorRole role, std::int64_t layer, std::int64_t expert) const {
  for (const std::span<const TensorName> names : {own, shared}) {
    for (const TensorName& name : names) {
      if (name.role != role) continue;
      return placed(fmt::format(fmt::runtime(name.pattern), fmt::arg("layer", layer + first_layer),
                                fmt::arg("expert", expert)));
    }
  }
  return {};
}

}  // namespace quire
