#include "models/moe_spec.h"

#include <cassert>
#include <cmath>

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
    case ExpertTensors::kStackedPairs:
      list.push_back({kExpertGateUps, {num_experts, 2 * width, hidden_size}});
      list.push_back({kExpertDowns, {num_experts, hidden_size, width}});
      break;
    case ExpertTensors::kTurnedGateUp:
    case ExpertTensors::kTurnedPairs:
      list.push_back({kExpertGateUps, {num_experts, hidden_size, 2 * width}});
      list.push_back({kExpertDowns, {num_experts, width, hidden_size}});
      break;
  }
  if (router_bias) list.push_back({kRouterLogitBias, {num_experts}});
  if (biases) {
    if (tensors == ExpertTensors::kStacked) {
      list.push_back({kExpertGateBiases, {num_experts, width}});
      list.push_back({kExpertUpBiases, {num_experts, width}});
    } else {
      list.push_back({kExpertGateUpBiases, {num_experts, 2 * width}});
    }
    list.push_back({kExpertDownBiases, {num_experts, hidden_size}});
  }
  if (choice_bias == ChoiceBias::kVector) list.push_back({kRouterBias, {num_experts}});
  if (choice_bias == ChoiceBias::kRow) list.push_back({kRouterBias, {1, num_experts}});
  if (shared_intermediate_size == 0) return;
  list.push_back({kSharedGate, {shared_intermediate_size, hidden_size}});
  list.push_back({kSharedUp, {shared_intermediate_size, hidden_size}});
  list.push_back({kSharedDown, {hidden_size, shared_intermediate_size}});
  if (shared_gate) list.push_back({kSharedExpertGate, {1, hidden_size}});
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
  const std::int64_t groups = routing.num_groups;
  if (groups < 1 || num_experts % groups != 0 || routing.groups_per_row < 1 ||
      routing.groups_per_row > groups ||
      num_experts / groups * routing.groups_per_row < experts_per_token) {
    return Status::bad_model(
        fmt::format("{}: {} experts for each token from {} of {} groups of {} experts; expected "
                    "groups of as many experts each, and as many in those of a token",
                    where, experts_per_token, routing.groups_per_row, groups, num_experts));
  }
  if (routing.group_rank == GroupRank::kSumOfTwoBest && groups > 1 && num_experts / groups < 2) {
    return Status::bad_model(fmt::format(
        "{}: {} groups of {} experts; expected groups of two or more", where, groups, num_experts));
  }
  if (!(routing.weight_scale > 0 && routing.weight_scale < 1e6F)) {
    return Status::bad_model(
        fmt::format("{}: the scale of the experts' weights is {}; expected above 0", where,
                    routing.weight_scale));
  }
  if (!(routing.min_weight_sum >= 0 && routing.min_weight_sum < 1)) {
    return Status::bad_model(
        fmt::format("{}: the least sum of the experts' weights is {}; expected 0 or more, below 1",
                    where, routing.min_weight_sum));
  }
  if (clamped && !(clamped->limit > 0 && clamped->limit < 1e6 && std::isfinite(clamped->alpha))) {
    return Status::bad_model(
        fmt::format("{}: gates clamped to {}; expected above 0", where, clamped->limit));
  }
  assert(!biases || in_pairs() || tensors == ExpertTensors::kStacked);
  if (shared_intermediate_size == 0) return {};
  return check_sizes(where,
                     {{"the intermediate size of the shared expert", shared_intermediate_size}});
}

}  // namespace quire
