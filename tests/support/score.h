// Logits of every position of a token sequence, computed in one step: what teacher-forced
// comparisons with a reference need.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "kernels/device.h"
#include "kernels/op_table.h"
#include "models/decoder_model.h"

namespace quire::test {

// Whether the environment says QUIRE_TEST_DEVICE=cuda.
bool scores_on_gpu();

// A loaded model with what one step of at most `max_tokens` tokens needs.
class Scorer {
 public:
  // On the processor with the kernels of `level`; where scores_on_gpu(), on the first GPU instead,
  // so that every comparison with a reference is one of the GPU, too. kUnimplemented where that has
  // no kernels for the model's weights.
  static Result<std::unique_ptr<Scorer>> open(
      const std::string& path, IsaLevel level, ActivationMode mode, DType kv_dtype,
      std::int64_t max_tokens, LoadQuantization quantization = LoadQuantization::kNone);

  // logits[i]: after token first + i, for i in [0, tokens.size() - first): rows of vocab_size.
  std::vector<float> score(const std::vector<TokenId>& tokens, std::int64_t first);
  const Model& model() const { return *model_; }
  std::int64_t vocab_size() const { return model_->spec().vocab_size; }

 private:
  explicit Scorer(std::unique_ptr<Device> device) : device_(std::move(device)), arena_({}) {}

  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<OpStream> ops_;
  ActivationMode mode_ = ActivationMode::kFloat32;
  std::vector<KvLayout> layouts_;  // of each layer
  Buffer kv_;
  Buffer activations_;
  Arena arena_;
};

}  // namespace quire::test
