// Reads a checkpoint's tensors by role into the memory of devices, as blocks need them, and counts
// what it has read.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/device.h"
#include "kernels/packed_weight.h"
#include "models/loaded_matrices.h"
#include "models/model_devices.h"
#include "models/packed_cache.h"
#include "models/spec.h"
#include "nn/norm.h"
#include "weights/weight_source.h"

namespace quire {

// Called after each tensor that was loaded, with the bytes done and in all.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// kBadModel where a tensor's values are not all finite.
Status check_finite(const TensorInfo& tensor, std::span<const float> values);

// Two matrices of each head.
struct HeadMatrices {
  std::vector<PackedWeight> transposed;
  std::vector<PackedWeight> others;
};

// Of a checkpoint that check_tensors() has accepted: what the specification says is there.
class TensorLoader {
 public:
  // Which columns, or rows, of a tensor belong to a matrix: from `begin` on every `step`th, `count`
  // of them.
  struct Columns {
    std::int64_t begin = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
  };

  // Borrows everything; `cache` may be null. Matrices that `matrices` has are used from there, the
  // others are added.
  TensorLoader(const DecoderSpec& spec, const WeightSource& source, const ModelDevices& devices,
               const LoadProgress& progress, LoadQuantization quantization, PackedCache* cache,
               LoadedMatrices& matrices);

  const DecoderSpec& spec() const { return spec_; }
  const ModelDevices& devices() const { return devices_; }

  // Where everything goes from here on; the main device before the first call.
  void use(Device& device) { device_ = &device; }

  // In memory, of all that was loaded: in that of the main device, and in the host's for its part.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t host_bytes() const { return host_bytes_; }

  // The vectors of `roles`, one after the other; empty where the model has none of them.
  Result<DeviceFloats> vector(std::initializer_list<TensorRole> roles, std::int64_t layer = 0);

  // Numbers that no tensor has (DecoderSpec::computed_bytes()).
  Result<DeviceFloats> upload(std::vector<float> values);

  // A vector of one number.
  Result<float> number(TensorRole role, std::int64_t layer);

  // A norm's weights, as kernels multiply with them.
  Result<DeviceFloats> norm_weight(TensorRole role, std::int64_t layer = 0);

  // Empty where the model has no such norm. `bias`: of a layer norm that may have one.
  Result<Norm> norm(TensorRole role, std::initializer_list<TensorRole> bias,
                    std::int64_t layer = 0);

  // The matrices of `roles`, packed as one where their encodings agree, else one each.
  Result<std::vector<PackedWeight>> matrices(std::initializer_list<TensorRole> roles,
                                             std::int64_t layer = 0);
  Result<PackedWeight> matrix(TensorRole role, std::int64_t layer = 0);

  // kUnimplemented where matrices of `roles`, which are multiplied with the same inputs, have them
  // in different orders. `expert`: of several, which.
  Status check_shared_inputs(std::initializer_list<TensorRole> roles, std::int64_t layer,
                             std::int64_t expert = 0) const;

  // A matrix, or a vector, whose rows are the queries, the key and the value of one key-value head
  // after the other, as one of all queries, all keys, all values. The vector is empty where the
  // model has none.
  Result<std::vector<PackedWeight>> matrix_by_head(TensorRole role, const AttentionSpec& attention,
                                                   std::int64_t layer);
  Result<DeviceFloats> vector_by_head(TensorRole role, const AttentionSpec& attention,
                                      std::int64_t layer);

  // Rows [first, first + count) of a matrix as numbers (DecoderSpec::computed_bytes()).
  Result<DeviceFloats> rows(TensorRole role, std::int64_t first, std::int64_t count,
                            std::int64_t layer = 0);

  // A matrix, or a vector, whose first `count` rows go behind the others. The vector is empty where
  // the model has none.
  Result<PackedWeight> turned_matrix(TensorRole role, std::int64_t count, std::int64_t layer);
  Result<DeviceFloats> turned_vector(TensorRole role, std::int64_t count, std::int64_t layer);

  // A matrix that has the rows of one head after the other, as two for each head: the first
  // `transposed_rows` rows of a head transposed, and the rest. kUnimplemented for an encoding of
  // blocks, which cannot be transposed without loss.
  Result<HeadMatrices> matrices_of_heads(TensorRole role, std::int64_t num_heads,
                                         std::int64_t transposed_rows, std::int64_t layer);

  // The matrices of `count` that one tensor has below each other, all of as many rows.
  Result<std::vector<PackedWeight>> stacked_matrices(TensorRole role, std::int64_t count,
                                                     std::int64_t layer);

  // The matrices of `count` experts, all of as many rows: a tensor each, or parts of one that has
  // three dimensions.
  Result<std::vector<PackedWeight>> experts(TensorRole role, std::int64_t count,
                                            std::int64_t layer);

  // One of the two matrices, or the only one, of each of `count` experts, whose rows are inputs in
  // the checkpoint: those of all experts are turned around at once, in memory that is free again
  // when they are packed.
  Result<std::vector<PackedWeight>> turned_experts(TensorRole role, std::int64_t count,
                                                   std::int64_t layer, Columns columns);
  // The same of experts whose rows are outputs: those rows of each.
  Result<std::vector<PackedWeight>> picked_experts(TensorRole role, std::int64_t count,
                                                   std::int64_t layer, Columns rows);
  // The numbers of `count` experts at the places of these two, one after the other.
  Result<DeviceFloats> expert_vectors(TensorRole role, std::int64_t count, std::int64_t layer,
                                      Columns columns);

  // `role` is an embedding's or the logits'. `rows`: that the result has at least; those that the
  // tensor does not have are its first.
  Result<PackedWeight> vocabulary(TensorRole role, std::int64_t rows = 0);

  // A matrix that decides where a token goes: never quantized at load.
  Result<PackedWeight> router(TensorRole role, std::int64_t layer);

 private:
  // Rows of a tensor of the checkpoint, as a matrix or a part of one; or what was made of them, in
  // the tensor's encoding.
  struct Rows {
    const TensorInfo* tensor = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;
    const std::uint8_t* made = nullptr;  // [count][made_cols]
    std::int64_t made_cols = 0;
    std::int64_t cols() const { return made == nullptr ? tensor->shape.back() : made_cols; }
  };
  static Rows all_rows(const TensorInfo& tensor) {
    return {.tensor = &tensor, .count = tensor.shape.size() == 1 ? 1 : tensor.shape[0]};
  }

  // nullptr where the model has none, even if the checkpoint uses the role's name for another.
  const TensorInfo* find(TensorRole role, std::int64_t layer, std::int64_t expert = 0) const;
  Result<PackedWeight> packed_matrix(const std::string& name, std::span<const Rows> parts);
  // Matrices of one size, of experts or of heads, which `kind` says; the first of their tensors
  // names them.
  Result<std::vector<PackedWeight>> packed_alike(std::string_view kind,
                                                 const std::vector<Rows>& parts);
  // Of matrices that were made of a tensor; `is_last`: nothing else of it will be.
  Result<std::vector<PackedWeight>> packed_made(const Columns& columns,
                                                const std::vector<Rows>& parts, bool is_last);
  Result<PackedWeight> loaded_matrix(const std::string& name, std::span<const Rows> parts);
  Result<PackedWeight> kept_or_packed(const std::string& name, std::span<const Rows> parts);
  Result<PackedWeight> packed(std::span<const Rows> parts);
  Result<std::vector<float>> values(std::initializer_list<TensorRole> roles, std::int64_t layer);
  Status append(const TensorInfo& tensor, std::vector<float>& values);  // of one dimension or none
  Status append_row(const TensorInfo& tensor, std::int64_t row, std::vector<float>& values);
  Result<PackedWeight> transposed_matrix(const TensorInfo& tensor);
  void report(const TensorInfo& tensor);
  bool on_main() const { return device_ == devices_.main; }
  void add_bytes(std::uint64_t bytes) { (on_main() ? bytes_ : host_bytes_) += bytes; }

  const DecoderSpec& spec_;
  const WeightSource& source_;
  ModelDevices devices_;
  Device* device_;
  const LoadProgress& progress_;
  PackedCache* cache_;
  LoadedMatrices& matrices_;
  PackOptions options_;
  std::vector<TensorRoles> roles_;  // that each layer has, and those outside
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t host_bytes_ = 0;
};

}  // namespace quire
