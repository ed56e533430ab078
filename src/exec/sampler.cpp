#include "exec/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"

namespace quire {
namespace {

// Tokens that the rows of a step may have banned at once, without an allocation.
constexpr std::size_t kReservedBans = 4096;

Status logits_not_finite(RequestId request_id) {
  return Status::bad_model(fmt::format("request {}: the model's logits are not finite", request_id),
                           "the weights may be damaged; fetch the model again");
}

std::span<TokenLogprob> part_of(std::vector<TokenLogprob>& all, std::int32_t first,
                                std::int32_t count) {
  return std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

bool has_processor(const InputBatch::SampleRow& row) {
  return row.context.params->logits_processor != nullptr;
}

// Whether a token is left to choose. The bans of LogitEdits never ban the last one.
bool is_any_left(const LogitEdits& edits, std::span<const float> logits) {
  const auto is_left = [&](std::size_t id) {
    const bool masked = !edits.mask.empty() && (id / 32 >= edits.mask.size() ||
                                                (edits.mask[id / 32] >> (id % 32) & 1) == 0);
    return !masked && logits[id] > -std::numeric_limits<float>::infinity();
  };
  if (!edits.allowed.empty()) {
    return std::ranges::any_of(edits.allowed,
                               [&](TokenId id) { return is_left(static_cast<std::size_t>(id)); });
  }
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_left(id)) return true;
  }
  return false;
}

// False for NaN, too.
bool is_logit(float value) { return value < std::numeric_limits<float>::infinity(); }

Status check_processed(const LogitEdits& edits, std::span<const float> logits) {
  const auto wrong = std::ranges::find_if_not(logits, is_logit);
  if (wrong != logits.end()) {
    return Status::invalid_argument(
        fmt::format("logits_processors: the logit of token {} became {}", wrong - logits.begin(),
                    *wrong),
        "give finite numbers, or minus infinity for a token that may not come");
  }
  if (is_any_left(edits, logits)) return {};
  return Status::invalid_argument(
      "logits_processors: no token is left that the request's other parameters allow",
      "leave one that is not minus infinity");
}

double uniform_of(const InputBatch::SampleRow& row) {
  if (row.context.params->greedy()) return 0;
  return random_uniform(row.seed, static_cast<std::uint64_t>(row.context.output().size()));
}

}  // namespace

Sampler::Sampler(std::int64_t vocab_size, std::int64_t max_rows, std::vector<TokenId> eos_token_ids)
    : vocab_size_(vocab_size), eos_token_ids_(std::move(eos_token_ids)) {
  const auto rows = static_cast<std::size_t>(max_rows);
  bans_.reserve(kReservedBans);
  bans_end_.reserve(rows);
  sample_args_.reserve(rows);
  score_args_.reserve(rows);
  samples_.reserve(rows);
  processed_.resize(static_cast<std::size_t>(vocab_size));
}

std::uint64_t Sampler::bytes(std::int64_t vocab_size, std::int64_t max_rows) {
  return kReservedBans * sizeof(TokenId) + static_cast<std::uint64_t>(vocab_size) * sizeof(float) +
         static_cast<std::uint64_t>(max_rows) *
             (sizeof(std::size_t) + sizeof(SampleArgs) + sizeof(ScoreArgs) + sizeof(RowSample));
}

void Sampler::collect_bans(std::span<const InputBatch::SampleRow> rows) {
  bans_.clear();
  bans_end_.clear();
  for (const InputBatch::SampleRow& row : rows) {
    append_bans(row.context, eos_token_ids_, bans_);
    bans_end_.push_back(bans_.size());
  }
}

Status Sampler::sample(OpStream& ops, const SampledLogits& logits,
                       std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result) {
  const std::size_t first = result.sampled.size();
  auto next_top = static_cast<std::int32_t>(result.top_logprobs.size());
  for (const InputBatch::SampleRow& row : rows) {
    const SamplingParams& params = *row.context.params;
    const std::int64_t asked =
        std::max(params.logprobs.value_or(0), params.num_beam_candidates(eos_token_ids_.size()));
    const auto count = static_cast<std::int32_t>(std::min(asked, vocab_size_));
    result.sampled.push_back({.request_id = row.request_id,
                              .first_top_logprob = next_top,
                              .num_top_logprobs = count,
                              .is_beam = params.is_beam_search()});
    next_top += count;
  }
  result.top_logprobs.resize(static_cast<std::size_t>(next_top));

  collect_bans(rows);
  sample_args_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < rows.size(); begin = bans_end_[i++]) {
    const SampleContext& context = rows[i].context;
    const SampledToken& token = result.sampled[first + i];
    sample_args_.push_back(
        {.edits = edits_of(context, std::span(bans_).subspan(begin, bans_end_[i] - begin)),
         .draw = draw_of(*context.params, uniform_of(rows[i])),
         .wants_logprob = context.params->logprobs.has_value() || token.is_beam,
         .top = part_of(result.top_logprobs, token.first_top_logprob, token.num_top_logprobs)});
  }
  samples_.resize(rows.size());
  for (std::size_t i = 0; i < rows.size();) {
    const auto end = std::ranges::find_if(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
                                          has_processor);
    const std::size_t count = static_cast<std::size_t>(end - rows.begin()) - i;
    if (count == 0) {
      QUIRE_RETURN_IF_ERROR(sample_processed(ops, logits, i, rows[i], result));
      ++i;
      continue;
    }
    ops.sample(logits.values + static_cast<std::int64_t>(i) * vocab_size_, logits.best + i,
               std::span(sample_args_).subspan(i, count), std::span(samples_).subspan(i, count));
    i += count;
  }
  QUIRE_RETURN_IF_ERROR(ops.synchronize());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!samples_[i].finite) return logits_not_finite(rows[i].request_id);
    SampledToken& token = result.sampled[first + i];
    token.token_id = samples_[i].token.token_id;
    token.logprob = samples_[i].token.logprob;
    token.rank = samples_[i].token.rank;
  }
  return {};
}

// Log probabilities are of the model's own logits, which are scored after the choice.
Status Sampler::sample_processed(OpStream& ops, const SampledLogits& logits, std::size_t i,
                                 const InputBatch::SampleRow& row, ModelRunnerOutput& result) {
  const float* const values = logits.values + static_cast<std::int64_t>(i) * vocab_size_;
  const std::span<RowSample> sample(&samples_[i], 1);
  ops.download(values, vocab_size_, processed_.data());
  QUIRE_RETURN_IF_ERROR(ops.synchronize());
  if (!std::ranges::all_of(processed_, is_logit)) return logits_not_finite(row.request_id);
  SampleArgs& args = sample_args_[i];
  Status status = row.context.params->logits_processor->process(row.context.output(), processed_);
  if (status.ok()) status = check_processed(args.edits, processed_);
  if (!status.ok()) {
    result.failed.push_back({row.request_id, std::move(status)});
    sample[0] = {.token = {}, .finite = true};
    return {};
  }
  const auto best = std::ranges::max_element(processed_);
  processed_best_ = {.value = *best, .index = static_cast<TokenId>(best - processed_.begin())};
  const std::span<TokenLogprob> top = std::exchange(args.top, {});
  const bool wants_logprob = std::exchange(args.wants_logprob, false);
  ops.sample(ops.stage(std::span<const float>(processed_)),
             ops.stage(std::span<const RowBest>(&processed_best_, 1)), std::span(&args, 1), sample);
  QUIRE_RETURN_IF_ERROR(ops.synchronize());
  if (!wants_logprob) return {};
  const ScoreArgs score = {.token_id = sample[0].token.token_id, .top = top};
  ops.score(values, logits.best + i, std::span(&score, 1), sample);
  return ops.synchronize();
}

Status Sampler::score(OpStream& ops, const SampledLogits& logits,
                      std::span<const InputBatch::PromptRow> rows, ModelRunnerOutput& result) {
  const std::size_t first = result.prompt_tokens.size();
  auto next_top = static_cast<std::int32_t>(result.top_logprobs.size());
  for (const InputBatch::PromptRow& row : rows) {
    const auto count =
        static_cast<std::int32_t>(std::min<std::int64_t>(row.num_top_logprobs, vocab_size_));
    result.prompt_tokens.push_back({.request_id = row.request_id,
                                    .position = row.position,
                                    .token = {.token_id = row.token_id},
                                    .first_top_logprob = next_top,
                                    .num_top_logprobs = count});
    next_top += count;
  }
  result.top_logprobs.resize(static_cast<std::size_t>(next_top));

  score_args_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PromptToken& prompt = result.prompt_tokens[first + i];
    score_args_.push_back(
        {.token_id = rows[i].token_id,
         .top = part_of(result.top_logprobs, prompt.first_top_logprob, prompt.num_top_logprobs)});
  }
  samples_.resize(rows.size());
  ops.score(logits.values, logits.best, score_args_, samples_);
  QUIRE_RETURN_IF_ERROR(ops.synchronize());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!samples_[i].finite) return logits_not_finite(rows[i].request_id);
    result.prompt_tokens[first + i].token = samples_[i].token;
  }
  return {};
}

}  // namespace quire
