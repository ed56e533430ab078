#include "apps/bench_spec/agreement.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <utility>

namespace quire {
namespace {

// The logits of each token of an output; tokens that are `given` are drawn whatever they are.
class LogitsRecorder : public LogitsProcessor {
 public:
  explicit LogitsRecorder(std::span<const TokenId> given) : given_(given.begin(), given.end()) {}

  Status process(std::span<const TokenId> output_token_ids, std::span<float> logits) override {
    const std::size_t place = output_token_ids.size();
    if (rows_.size() <= place) rows_.resize(place + 1);
    rows_[place].assign(logits.begin(), logits.end());
    if (given_.empty()) return {};
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    logits[static_cast<std::size_t>(given_[place])] = 0;
    return {};
  }
  std::vector<std::vector<float>> take() { return std::move(rows_); }

 private:
  std::vector<TokenId> given_;
  std::vector<std::vector<float>> rows_;
};

Result<ScoredOutput> decode(Engine& engine, std::span<const TokenId> prompt,
                            std::int64_t num_tokens, std::span<const TokenId> given) {
  const auto recorder = std::make_shared<LogitsRecorder>(given);
  GenerateRequest request;
  request.prompt_token_ids.assign(prompt.begin(), prompt.end());
  request.params.temperature = 1;
  request.params.seed = 0;
  request.params.ignore_eos = true;
  request.params.max_tokens = num_tokens;
  request.params.logits_processor = recorder;
  request.drafts = 0;
  ScoredOutput scored;
  std::promise<Status> ended;
  QUIRE_RETURN_IF_ERROR(engine
                            .submit(std::move(request),
                                    [&scored, &ended](const RequestOutput& output) {
                                      scored.token_ids.insert(scored.token_ids.end(),
                                                              output.token_ids.begin(),
                                                              output.token_ids.end());
                                      if (output.request_finished) ended.set_value(output.error);
                                    })
                            .status());
  QUIRE_RETURN_IF_ERROR(ended.get_future().get());
  scored.logits = recorder->take();
  return scored;
}

std::vector<double> softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> weights;
  weights.reserve(logits.size());
  double total = 0;
  for (const float logit : logits) total += weights.emplace_back(std::exp(logit - largest));
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

Agreement agreement_of(std::span<const float> target, std::span<const float> draft) {
  const std::vector<double> p = softmax(target);
  const std::vector<double> q = softmax(draft);
  Agreement agreement;
  agreement.num_places = 1;
  agreement.best =
      std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  double p_end = 0;
  double q_end = 0;
  for (std::size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
    agreement.rejection += std::min(p[i], q[i]);
    // The random numbers in [0, 1) for which both draw token i.
    const double begin = std::max(p_end, q_end);
    p_end += p[i];
    q_end += q[i];
    agreement.one_number += std::max(std::min(p_end, q_end) - begin, 0.0);
  }
  return agreement;
}

Result<ScoredOutput> sample_scored(Engine& engine, std::span<const TokenId> prompt,
                                   std::int64_t num_tokens) {
  return decode(engine, prompt, num_tokens, {});
}

Result<Agreement> agreement_on(Engine& draft, std::span<const TokenId> prompt,
                               const ScoredOutput& output) {
  QUIRE_ASSIGN_OR_RETURN(const ScoredOutput read,
                         decode(draft, prompt, std::ssize(output.token_ids), output.token_ids));
  Agreement mean;
  mean.num_places = std::ssize(output.logits);
  for (std::size_t i = 0; i < output.logits.size(); ++i) {
    const Agreement here = agreement_of(output.logits[i], read.logits[i]);
    mean.best += here.best;
    mean.one_number += here.one_number;
    mean.rejection += here.rejection;
  }
  const auto places = static_cast<double>(std::max<std::int64_t>(mean.num_places, 1));
  mean.best /= places;
  mean.one_number /= places;
  mean.rejection /= places;
  return mean;
}

}  // namespace quire
