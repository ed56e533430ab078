// Heads that guess tokens further ahead from a model's final states (Cai et al. 2024, Medusa):
// residual blocks x += SiLU(W x + b), and an output matrix.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/packed_weight.h"
#include "tensor/device_floats.h"

namespace quire {

struct MedusaBlock {
  PackedWeight matrix;  // [hidden_size][hidden_size]
  DeviceFloats bias;    // [hidden_size], or empty
};

struct MedusaWeights {
  std::vector<std::vector<MedusaBlock>> blocks;  // of each head
  std::vector<PackedWeight> outputs;             // of each head, or one for all: [vocab][hidden]
};

class MedusaHeads {
 public:
  explicit MedusaHeads(MedusaWeights weights) : weights_(std::move(weights)) {}

  std::int64_t num_heads() const { return std::ssize(weights_.blocks); }
  std::int64_t hidden_size() const { return weights_.outputs.front().inputs(); }
  std::int64_t vocab_size() const { return weights_.outputs.front().outputs(); }

  // The logits of a head, which guesses `head` + 2 tokens behind that of its state, and the largest
  // of each row. states, x, scratch: [rows][hidden_size]; logits: [rows][vocab_size]; best: [rows].
  void logits(OpStream& ops, ActivationMode mode, std::int64_t head, const float* states,
              std::int64_t rows, float* x, float* scratch, float* logits, RowBest* best) const;

 private:
  MedusaWeights weights_;
};

}  // namespace quire
