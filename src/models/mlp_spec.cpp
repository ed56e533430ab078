#include "models/mlp_spec.h"

#include <cassert>

#include <fmt/format.h>

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

Status SparseMlpSpec::validate(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(GatedMlpSpec::validate(where));
  assert(activation != Activation::kSilu && !fused_gate_up);
  if (deviations > -10 && deviations < 10) return {};
  return Status::bad_model(
      fmt::format("{}: gates are open from {} standard deviations above their mean; expected -10 "
                  "to 10",
                  where, deviations));
}

void PlainMlpSpec::list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  tensors.push_back({kUp, {intermediate_size, hidden_size}});
  tensors.push_back({kDown, {hidden_size, intermediate_size}});
  if (xielu && !xielu_numbers) {
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
