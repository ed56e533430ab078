// Replaces tensors of a model that runs, as training them further does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "kernels/device.h"
#include "models/decoder_model.h"
#include "weights/weight_source.h"

namespace quire {

class WeightUpdater {
 public:
  // `checkpoint`: what the model was loaded from, with these settings; its mapping is kept, and
  // read for the vectors that no update has given. Borrows the devices.
  WeightUpdater(std::unique_ptr<WeightSource> checkpoint, std::int64_t max_positions,
                LoadQuantization quantization, const ModelDevices& devices);

  // `current` with these tensors in place of its own: what Model::load() gives for a checkpoint
  // that has them, bit for bit. Names and shapes are the checkpoint's; numbers are F32, F16 or BF16
  // and are rounded to what the checkpoint has. Matrices of other tensors are shared. While none
  // of the device's ops run.
  // kInvalidArgument for a name that is not there or comes twice, another shape, data of another
  // size, and a tensor that is packed with others that are not given; kUnimplemented for one that
  // is quantized in the checkpoint; kBadModel for numbers that are not finite; kResourceExhausted.
  Result<std::unique_ptr<Model>> update(const Model& current,
                                        const std::vector<TensorInfo>& tensors);

 private:
  struct Replacement {
    const TensorInfo* tensor = nullptr;  // of the checkpoint
    std::span<const std::uint8_t> data;
    std::vector<std::uint8_t> owned = {};  // where `data` is no one else's
  };
  using Replacements = std::unordered_map<std::string_view, Replacement>;
  Result<Replacements> read(const Model& current, const std::vector<TensorInfo>& tensors) const;

  std::unique_ptr<WeightSource> checkpoint_;
  std::int64_t max_positions_;
  LoadQuantization quantization_;
  ModelDevices devices_;
  Replacements vectors_;  // of earlier updates: what no packed matrix has
};

}  // namespace quire
