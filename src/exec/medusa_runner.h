// Computes Medusa's heads on states of the model that they guess for: the tokens that they draw,
// and the most probable ones. All memory is reserved at creation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "exec/sampler.h"
#include "kernels/device.h"
#include "models/medusa.h"

namespace quire {

struct MedusaLimits {
  std::int64_t max_rows = 0;
  std::vector<TokenId> eos_token_ids = {};  // that min_tokens bans
  ActivationMode activation_mode = ActivationMode::kFloat32;
};

class MedusaRunner {
 public:
  // Borrows the device that the heads were loaded to for its life. kResourceExhausted.
  static Result<std::unique_ptr<MedusaRunner>> create(LoadedMedusa medusa, Device& device,
                                                      MedusaLimits limits);

  // What it takes besides the heads, where a stream for its limits takes `stream`.
  static StreamLimits stream_limits(const MedusaSpec& spec, std::int64_t max_rows);
  static std::uint64_t bytes(const MedusaSpec& spec, std::int64_t max_rows,
                             const StreamMemory& stream);

  std::int64_t num_heads() const { return medusa_.heads->num_heads(); }
  std::int64_t hidden_size() const { return medusa_.heads->hidden_size(); }
  // Whether the heads know only some tokens. Tokens that rows name must then be none.
  bool reduced() const { return !medusa_.token_map.empty(); }

  // A token for each row, and the alternatives that it asks for, in place of what `result` had;
  // ids are the model's. states: [rows][hidden_size].
  Status run(std::int64_t head, std::span<const float> states,
             std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result);

 private:
  MedusaRunner(LoadedMedusa medusa, MedusaLimits limits, Buffer memory,
               std::unique_ptr<OpStream> ops);

  LoadedMedusa medusa_;
  ActivationMode activation_mode_;
  Buffer memory_;
  std::unique_ptr<OpStream> ops_;
  Sampler sampler_;
  // Parts of `memory_`.
  float* x_ = nullptr;        // [max_rows][hidden_size]
  float* scratch_ = nullptr;  // [max_rows][hidden_size]
  float* logits_ = nullptr;   // [max_rows][vocab_size]
  RowBest* best_ = nullptr;   // [max_rows]
};

}  // namespace quire
