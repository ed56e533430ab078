// The tokens of a stream's steps: chosen on the GPU (sampling.h), and by the CPU's code for the few
// rows that are left to it, whose logits are copied to the host.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/cuda/transfers.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sampling/sample_rows.h"
#include "kernels/sizing.h"

namespace quire::cuda {

class TokenSampling {
 public:
  // `launch` enqueues what was staged and says where kernels go.
  TokenSampling(Transfers& transfers, std::function<Launch()> launch, ThreadPool& threads,
                const OpTable& table, const StreamLimits& limits);

  // Forgets what an error has left.
  void begin_step() { calls_.clear(); }
  // As OpStream has them; results are there after finish().
  void sample(const float* logits, const RowBest* best, std::span<const SampleArgs> rows,
              std::span<RowSample> samples);
  void score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
             std::span<RowSample> scores);
  // The stream is synchronized; it may be used and synchronized again.
  Status finish();

 private:
  // A call of sample() or score(). `device_results`: in pinned memory, null where the GPU has not
  // been asked: a DeviceSample of each row, then the most probable tokens of all.
  struct Call {
    const float* logits = nullptr;
    const RowBest* best = nullptr;
    std::span<const SampleArgs> rows = {};
    std::span<const ScoreArgs> scored = {};
    std::span<RowSample> results = {};
    const std::byte* device_results = nullptr;
  };

  template <typename Row>
  void enqueue(Call& call, std::span<const Row> rows);
  template <typename Row>
  Status finish_call(const Call& call, std::span<const Row> rows);
  template <typename Row>
  Status ask_host(const Call& call, std::span<const Row> rows,
                  const std::vector<std::size_t>& undecided);
  template <typename T>
  std::span<const T> staged(std::span<const T> values);
  SampleArgs staged(const SampleArgs& row, std::span<TokenLogprob> top);
  ScoreArgs staged(const ScoreArgs& row, std::span<TokenLogprob> top);

  Transfers& transfers_;
  std::function<Launch()> launch_;
  OpContext host_;
  SamplingScratch scratch_;
  std::int64_t vocab_size_;
  std::vector<Call> calls_;
};

}  // namespace quire::cuda
