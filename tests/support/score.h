// Logits of every position of a token sequence, computed in one step: what teacher-forced
// comparisons with a reference need.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "kernels/cpu_device.h"
#include "models/decoder_model.h"

namespace quire::test {

// A loaded model with what one step of at most `max_tokens` tokens needs.
class Scorer {
 public:
  static Result<std::unique_ptr<Scorer>> open(
      const std::string& path, IsaLevel level, ActivationMode mode, DType kv_dtype,
      std::int64_t max_tokens, LoadQuantization quantization = LoadQuantization::kNone);

  // logits[i]: after token first + i, for i in [0, tokens.size() - first): rows of vocab_size.
  std::vector<float> score(const std::vector<TokenId>& tokens, std::int64_t first);
  const Model& model() const { return *model_; }
  std::int64_t vocab_size() const { return model_->spec().vocab_size; }

 private:
  explicit Scorer(IsaLevel level) : device_(2, op_table(level)), arena_({}) {}

  CpuDevice device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<OpStream> ops_;
  ActivationMode mode_ = ActivationMode::kFloat32;
  std::vector<KvLayout> layouts_;  // of each layer
  Buffer kv_;
  Buffer activations_;
  Arena arena_;
};

}  // namespace quire::test
