#include "kernels/cuda/sampling/token_sampling.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

namespace quire::cuda {
namespace {

template <typename Row>
std::size_t num_top(std::span<const Row> rows) {
  std::size_t count = 0;
  for (const Row& row : rows) count += row.top.size();
  return count;
}

SamplingNeeds needs_of(std::span<const SampleArgs> rows) {
  SamplingNeeds needs;
  for (const SampleArgs& row : rows) {
    needs.edits = needs.edits || !row.edits.empty();
    needs.logprobs = needs.logprobs || row.wants_logprob;
  }
  return needs;
}

void sample_on_device(const Launch& launch, const float* logits, const RowBest* best,
                      std::int64_t vocab_size, std::span<const SampleArgs> host_rows,
                      const SampleArgs* rows, DeviceSample* results) {
  sample_rows(launch, logits, best, vocab_size, rows, std::ssize(host_rows), needs_of(host_rows),
              results);
}

void sample_on_device(const Launch& launch, const float* logits, const RowBest* best,
                      std::int64_t vocab_size, std::span<const ScoreArgs> host_rows,
                      const ScoreArgs* rows, DeviceSample* results) {
  score_rows(launch, logits, best, vocab_size, rows, std::ssize(host_rows), results);
}

void sample_on_host(OpContext& host, SamplingScratch& scratch, const float* logits,
                    const RowBest* best, std::span<const SampleArgs> rows,
                    std::span<RowSample> results) {
  sample_rows(host, scratch, logits, best, rows, results);
}

void sample_on_host(OpContext& host, SamplingScratch& scratch, const float* logits,
                    const RowBest* best, std::span<const ScoreArgs> rows,
                    std::span<RowSample> results) {
  score_rows(host, scratch, logits, best, rows, results);
}

}  // namespace

TokenSampling::TokenSampling(Transfers& transfers, std::function<Launch()> launch,
                             ThreadPool& threads, const OpTable& table, const StreamLimits& limits)
    : transfers_(transfers),
      launch_(std::move(launch)),
      host_{.pool = threads, .table = table, .workspace = {}},
      scratch_(limits.vocab_size, limits.max_sampled_rows, threads.num_threads()),
      vocab_size_(limits.vocab_size) {}

template <typename T>
std::span<const T> TokenSampling::staged(std::span<const T> values) {
  if (values.empty()) return {};
  const auto place = transfers_.stage(values.size_bytes());
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(place.host));
  return {reinterpret_cast<const T*>(place.device), values.size()};
}

SampleArgs TokenSampling::staged(const SampleArgs& row, std::span<TokenLogprob> top) {
  SampleArgs far = row;
  far.edits.mask = staged(row.edits.mask);
  far.edits.allowed = staged(row.edits.allowed);
  far.edits.biases = staged(row.edits.biases);
  far.edits.banned = staged(row.edits.banned);
  far.edits.token_ids =
      row.edits.has_penalties() ? staged(row.edits.token_ids) : std::span<const TokenId>();
  far.top = top;
  return far;
}

ScoreArgs TokenSampling::staged(const ScoreArgs& row, std::span<TokenLogprob> top) {
  return {.token_id = row.token_id, .top = top};
}

template <typename Row>
void TokenSampling::enqueue(Call& call, std::span<const Row> rows) {
  if (!samples_vocabulary(vocab_size_)) return;
  const std::uint64_t bytes =
      rows.size() * sizeof(DeviceSample) + num_top(rows) * sizeof(TokenLogprob);
  const auto results = transfers_.stage(bytes);  // written by the GPU alone
  std::fill_n(results.host, bytes, std::byte{0});
  auto* top = reinterpret_cast<TokenLogprob*>(results.device + rows.size() * sizeof(DeviceSample));
  const auto far_rows = transfers_.stage(rows.size_bytes());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row far = staged(rows[i], std::span(top, rows[i].top.size()));
    std::construct_at(reinterpret_cast<Row*>(far_rows.host) + i, far);
    top += rows[i].top.size();
  }
  sample_on_device(launch_(), call.logits, call.best, vocab_size_, rows,
                   reinterpret_cast<const Row*>(far_rows.device),
                   reinterpret_cast<DeviceSample*>(results.device));
  call.device_results = transfers_.download(results.device, bytes);
}

void TokenSampling::sample(const float* logits, const RowBest* best,
                           std::span<const SampleArgs> rows, std::span<RowSample> samples) {
  if (rows.empty()) return;
  Call call = {.logits = logits, .best = best, .rows = rows, .results = samples};
  enqueue(call, rows);
  calls_.push_back(call);
}

void TokenSampling::score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
                          std::span<RowSample> scores) {
  if (rows.empty()) return;
  Call call = {.logits = logits, .best = best, .scored = rows, .results = scores};
  enqueue(call, rows);
  calls_.push_back(call);
}

template <typename Row>
Status TokenSampling::ask_host(const Call& call, std::span<const Row> rows,
                               const std::vector<std::size_t>& undecided) {
  const auto fetch = [&](const auto* from, std::int64_t count) {
    using T = std::remove_cvref_t<decltype(*from)>;
    return reinterpret_cast<const T*>(
        transfers_.download_rows(reinterpret_cast<const std::byte*>(from),
                                 static_cast<std::uint64_t>(count) * sizeof(T), undecided));
  };
  const float* const logits = fetch(call.logits, vocab_size_);
  const RowBest* const best = fetch(call.best, 1);
  QUIRE_RETURN_IF_ERROR(transfers_.synchronize());
  std::vector<Row> own;
  for (const std::size_t i : undecided) own.push_back(rows[i]);
  std::vector<RowSample> results(own.size());
  sample_on_host(host_, scratch_, logits, best, std::span<const Row>(own), results);
  for (std::size_t i = 0; i < own.size(); ++i) call.results[undecided[i]] = results[i];
  return {};
}

template <typename Row>
Status TokenSampling::finish_call(const Call& call, std::span<const Row> rows) {
  const auto* const decided = reinterpret_cast<const DeviceSample*>(call.device_results);
  const auto* top = reinterpret_cast<const TokenLogprob*>(decided + rows.size());
  std::vector<std::size_t> undecided;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (decided == nullptr || !decided[i].decided) {
      undecided.push_back(i);
    } else {
      call.results[i] = decided[i].sample;
      if (decided[i].sample.finite) std::copy_n(top, rows[i].top.size(), rows[i].top.begin());
    }
    if (decided != nullptr) top += rows[i].top.size();
  }
  return undecided.empty() ? Status() : ask_host(call, rows, undecided);
}

Status TokenSampling::finish() {
  for (const Call& call : std::exchange(calls_, {})) {
    QUIRE_RETURN_IF_ERROR(call.scored.empty() ? finish_call(call, call.rows)
                                              : finish_call(call, call.scored));
  }
  return {};
}

}  // namespace quire::cuda
