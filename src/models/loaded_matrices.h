// The packed matrices of a model by the names that loading gives them, so that a model with some
// tensors replaced shares all others with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "kernels/packed_weight.h"

namespace quire {

class LoadedMatrices {
 public:
  // Keeps `weight`, made of these tensors of the checkpoint; a view of it.
  PackedWeight add(const std::string& name, std::vector<std::string> tensors, PackedWeight weight);
  // A view of what was kept by that name.
  std::optional<PackedWeight> find(const std::string& name) const;

  // Whether a matrix is made of that tensor.
  bool holds(const std::string& tensor) const { return tensors_.contains(tensor); }
  // The matrices that none of `tensors` is a part of. kInvalidArgument for a matrix that has other
  // parts, too, since these exist nowhere else.
  Result<LoadedMatrices> without(const std::unordered_set<std::string>& tensors) const;

 private:
  struct Entry {
    std::vector<std::string> tensors;
    std::shared_ptr<const PackedWeight> weight;
  };
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_set<std::string> tensors_;  // of all entries
};

}  // namespace quire
