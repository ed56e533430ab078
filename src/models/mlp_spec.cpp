#include "models/mlp_spec.h"

#include "models/size_check.h"

namespace quire {

void GatedMlpSpec::list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  if (fused_gate_up) {
    tensors.push_back({kGateUp, {2 * intermediate_size, hidden_size}});
  } else {
    tensors.push_back({kGate, {intermediate_size, hidden_size}});
    tensors.push_back({kUp, {intermediate_size, hidden_size}});
  }
  tensors.push_back({kDown, {hidden_size, intermediate_size}});
  if (!bias) return;
  tensors.push_back({kGateBias, {intermediate_size}});
  tensors.push_back({kUpBias, {intermediate_size}});
  tensors.push_back({kDownBias, {hidden_size}});
}

Status GatedMlpSpec::validate(std::string_view where) const {
  return check_sizes(where, {{"intermediate_size", intermediate_size}});
}

void PlainMlpSpec::list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  tensors.push_back({kUp, {intermediate_size, hidden_size}});
  tensors.push_back({kDown, {hidden_size, intermediate_size}});
  if (xielu) {
    tensors.push_back({kXieluAlphaP, {1}});
    tensors.push_back({kXieluAlphaN, {1}});
    tensors.push_back({kXieluBeta, {}});
    tensors.push_back({kXieluEpsilon, {}});
  }
  if (!bias) return;
  tensors.push_back({kUpBias, {intermediate_size}});
  tensors.push_back({kDownBias, {hidden_size}});
}

Status PlainMlpSpec::validate(std::string_view where) const {
  return check_sizes(where, {{"intermediate_size", intermediate_size}});
}

}  // namespace quire
