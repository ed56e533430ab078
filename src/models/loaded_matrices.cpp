#include "models/loaded_matrices.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

PackedWeight view_of(const std::shared_ptr<const PackedWeight>& weight) {
  return PackedWeight::view(weight->layout(), weight->outputs(), weight->inputs(), weight->bytes(),
                            weight);
}

}  // namespace

PackedWeight LoadedMatrices::add(const std::string& name, std::vector<std::string> tensors,
                                 PackedWeight weight) {
  tensors_.insert(tensors.begin(), tensors.end());
  auto kept = std::make_shared<const PackedWeight>(std::move(weight));
  PackedWeight view = view_of(kept);
  entries_[name] = {std::move(tensors), std::move(kept)};
  return view;
}

std::optional<PackedWeight> LoadedMatrices::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return view_of(found->second.weight);
}

Result<LoadedMatrices> LoadedMatrices::without(
    const std::unordered_set<std::string>& tensors) const {
  LoadedMatrices left;
  const auto is_given = [&](const std::string& tensor) { return tensors.contains(tensor); };
  for (const auto& [name, entry] : entries_) {
    if (std::ranges::none_of(entry.tensors, is_given)) {
      left.entries_.emplace(name, entry);
      left.tensors_.insert(entry.tensors.begin(), entry.tensors.end());
      continue;
    }
    const auto missing = std::ranges::find_if_not(entry.tensors, is_given);
    if (missing == entry.tensors.end()) continue;
    return Status::invalid_argument(
        fmt::format("{} and {} lie in one matrix, and one of them alone cannot be replaced",
                    printable(*std::ranges::find_if(entry.tensors, is_given)), printable(*missing)),
        "give both");
  }
  return left;
}

}  // namespace quire
