// Medusa's heads as checkpoints of their own have them, beside the model that they were trained
// for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/status.h"
#include "kernels/device.h"
#include "models/spec.h"
#include "nn/medusa_heads.h"
#include "weights/weight_source.h"

namespace quire {

struct MedusaSpec {
  // Names of tensors: FasterDecoding/Medusa's (medusa/model/medusa_model.py: a list of Sequential),
  // which Text Generation Inference reads as well, and those of vLLM's converted checkpoints
  // (vllm/model_executor/models/medusa.py).
  enum class Layout : std::uint8_t {
    kMedusa,  // {head}.{layer}.linear.{weight,bias}, {head}.{num_layers}.weight
    kVllm,    // blocks.{head}.layers.{layer}.{weight,bias}, lm_heads.{head}.weight, token_map
  };

  Layout layout = Layout::kMedusa;
  std::string prefix;  // of all names
  std::int64_t num_heads = 0;
  std::int64_t num_layers = 0;  // residual blocks of a head
  std::int64_t hidden_size = 0;
  std::int64_t vocab_size = 0;  // tokens that are guessed: fewer than the model's where reduced
  bool bias = false;
  bool one_output = false;  // for all heads
  bool reduced = false;     // token_map says which tokens are guessed

  std::string block_name(std::int64_t head, std::int64_t layer, bool is_bias) const;
  std::string output_name(std::int64_t head) const;

  // Bytes of what load_medusa() loads, packed.
  std::uint64_t weight_bytes(const WeightSource& source) const;
};

// From config.json: medusa_num_heads and medusa_num_layers, or vLLM's num_heads and
// num_hidden_layers. Further heads of the checkpoint are not read. Errors: kConfig where hidden
// size or vocabulary are not the model's, kBadModel where a head lacks a tensor or has another.
Result<MedusaSpec> medusa_spec(const JsonReader& config, const WeightSource& source,
                               const DecoderSpec& model);

struct LoadedMedusa {
  std::unique_ptr<const MedusaHeads> heads;
  std::vector<TokenId> token_map;  // the model's token of each of theirs; empty: the same
};

// `device` must outlive the heads. Besides the errors of packing, kBadModel for a token_map with a
// token that the model does not have.
Result<LoadedMedusa> load_medusa(const MedusaSpec& spec, const WeightSource& source,
                                 std::int64_t model_vocab_size, Device& device);

}  // namespace quire
