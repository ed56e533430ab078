#include "models/moe_spec.h"

#include <fmt/format.h>

#include "models/size_check.h"

namespace quire {

void MoeSpec::list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& list) const {
  using enum TensorRole;
  const std::int64_t width = intermediate_size;
  list.push_back({kRouter, {num_experts, hidden_size}});
  switch (tensors) {
    case ExpertTensors::kEach:
      list.push_back({kExpertGate, {width, hidden_size}, num_experts});
      list.push_back({kExpertUp, {width, hidden_size}, num_experts});
      list.push_back({kExpertDown, {hidden_size, width}, num_experts});
      break;
    case ExpertTensors::kStacked:
      list.push_back({kExpertGates, {num_experts, width, hidden_size}});
      list.push_back({kExpertUps, {num_experts, width, hidden_size}});
      list.push_back({kExpertDowns, {num_experts, hidden_size, width}});
      break;
    case ExpertTensors::kStackedGateUp:
      list.push_back({kExpertGateUps, {num_experts, 2 * width, hidden_size}});
      list.push_back({kExpertDowns, {num_experts, hidden_size, width}});
      break;
  }
  if (shared_intermediate_size == 0) return;
  list.push_back({kSharedGate, {shared_intermediate_size, hidden_size}});
  list.push_back({kSharedUp, {shared_intermediate_size, hidden_size}});
  list.push_back({kSharedDown, {hidden_size, shared_intermediate_size}});
  list.push_back({kSharedExpertGate, {1, hidden_size}});
}

Status MoeSpec::validate(std::string_view where) const {
  constexpr std::int64_t kMaxExperts = 1 << 14;
  QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"the intermediate size of experts", intermediate_size},
                                            {"the number of experts", num_experts},
                                            {"the experts for each token", experts_per_token}}));
  if (num_experts > kMaxExperts || experts_per_token > num_experts) {
    return Status::bad_model(
        fmt::format("{}: {} of {} experts for each token; expected as many as "
                    "there are at most, of up to {}",
                    where, experts_per_token, num_experts, kMaxExperts));
  }
  if (shared_intermediate_size == 0) return {};
  return check_sizes(where,
                     {{"the intermediate size of the shared expert", shared_intermediate_size}});
}

}  // namespace quire
