#include "exec/medusa_runner.h"

#include <utility>

#include "tensor/arena.h"

namespace quire {
namespace {

struct MedusaMemory {
  std::uint64_t hidden = 0;  // of one of two
  std::uint64_t logits = 0;
  std::uint64_t best = 0;

  std::uint64_t total() const { return 2 * hidden + logits + best; }
};

MedusaMemory medusa_memory(std::int64_t hidden_size, std::int64_t vocab_size,
                           std::int64_t max_rows) {
  return {.hidden = Arena::float_bytes(max_rows * hidden_size),
          .logits = Arena::float_bytes(max_rows * vocab_size),
          .best = Arena::array_bytes<RowBest>(max_rows)};
}

StreamLimits medusa_stream_limits(std::int64_t hidden_size, std::int64_t vocab_size,
                                  std::int64_t max_rows) {
  return {.max_rows = max_rows,
          .max_inputs = hidden_size,
          .vocab_size = vocab_size,
          .max_sampled_rows = max_rows};
}

}  // namespace

StreamLimits MedusaRunner::stream_limits(const MedusaSpec& spec, std::int64_t max_rows) {
  return medusa_stream_limits(spec.hidden_size, spec.vocab_size, max_rows);
}

std::uint64_t MedusaRunner::bytes(const MedusaSpec& spec, std::int64_t max_rows,
                                  const StreamMemory& stream) {
  return medusa_memory(spec.hidden_size, spec.vocab_size, max_rows).total() + stream.workspace +
         stream.sampling + Sampler::bytes(spec.vocab_size, max_rows);
}

Result<std::unique_ptr<MedusaRunner>> MedusaRunner::create(LoadedMedusa medusa, Device& device,
                                                           MedusaLimits limits) {
  const MedusaHeads& heads = *medusa.heads;
  QUIRE_ASSIGN_OR_RETURN(
      Buffer memory,
      device.allocate(
          medusa_memory(heads.hidden_size(), heads.vocab_size(), limits.max_rows).total()));
  QUIRE_ASSIGN_OR_RETURN(auto ops, device.make_stream(medusa_stream_limits(
                                       heads.hidden_size(), heads.vocab_size(), limits.max_rows)));
  if (!medusa.token_map.empty()) limits.eos_token_ids.clear();  // of other ids
  return std::unique_ptr<MedusaRunner>(
      new MedusaRunner(std::move(medusa), std::move(limits), std::move(memory), std::move(ops)));
}

MedusaRunner::MedusaRunner(LoadedMedusa medusa, MedusaLimits limits, Buffer memory,
                           std::unique_ptr<OpStream> ops)
    : medusa_(std::move(medusa)),
      activation_mode_(limits.activation_mode),
      memory_(std::move(memory)),
      ops_(std::move(ops)),
      sampler_(medusa_.heads->vocab_size(), limits.max_rows, std::move(limits.eos_token_ids)) {
  const MedusaMemory parts =
      medusa_memory(medusa_.heads->hidden_size(), medusa_.heads->vocab_size(), limits.max_rows);
  std::byte* next = memory_.data();
  const auto take = [&](std::uint64_t bytes) { return std::exchange(next, next + bytes); };
  x_ = reinterpret_cast<float*>(take(parts.hidden));
  scratch_ = reinterpret_cast<float*>(take(parts.hidden));
  logits_ = reinterpret_cast<float*>(take(parts.logits));
  best_ = reinterpret_cast<RowBest*>(take(parts.best));
}

Status MedusaRunner::run(std::int64_t head, std::span<const float> states,
                         std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result) {
  result.clear();
  ops_->begin_step();
  medusa_.heads->logits(*ops_, activation_mode_, head, ops_->stage(states), std::ssize(rows), x_,
                        scratch_, logits_, best_);
  QUIRE_RETURN_IF_ERROR(sampler_.sample(*ops_, {logits_, best_}, rows, result));
  if (!reduced()) return {};
  const auto map = [&](TokenId& token) {
    token = medusa_.token_map[static_cast<std::size_t>(token)];
  };
  for (SampledToken& token : result.sampled) map(token.token_id);
  for (TokenLogprob& token : result.top_logprobs) map(token.token_id);
  return {};
}

}  // namespace quire
