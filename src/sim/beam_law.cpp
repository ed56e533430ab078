#include "sim/beam_law.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/simulated_executor.h"

namespace quire {
namespace {

constexpr double kNothing = -1e9;

struct Sequence {
  std::vector<TokenId> output;
  std::uint64_t history = 0;
  double score = kNothing;
  bool finished = false;
};

// The best `count`; of equals the earlier ones.
void keep_best(std::vector<Sequence>& sequences, std::size_t count) {
  std::ranges::stable_sort(sequences, std::ranges::greater(), &Sequence::score);
  if (sequences.size() > count) sequences.resize(count);
}

std::vector<Sequence> continuations(const std::vector<Sequence>& running, std::int32_t vocab_size) {
  std::vector<Sequence> all;
  for (const Sequence& each : running) {
    for (TokenId id = 0; id < vocab_size; ++id) {
      Sequence next = each;
      next.output.push_back(id);
      next.score += static_cast<double>(simulated_logprob(each.history, id));
      next.history = extend_history(each.history, id);
      next.finished = false;
      all.push_back(std::move(next));
    }
  }
  return all;
}

}  // namespace

std::vector<std::vector<TokenId>> solo_beam_search(const AddRequest& request,
                                                   const SchedulerConfig& config,
                                                   std::int32_t vocab_size) {
  const SamplingParams& params = *request.sampling_params;
  const auto width = static_cast<std::size_t>(params.beam_width);
  const std::int64_t longest = std::min<std::int64_t>(
      params.max_tokens, config.max_model_len - std::ssize(request.prompt_token_ids));
  const auto contains = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  const std::size_t num_ending =
      params.stop_token_ids.size() + (params.ignore_eos ? 0 : config.eos_token_ids.size());
  std::vector<Sequence> running(width);
  for (const TokenId id : request.prompt_token_ids) {
    running[0].history = extend_history(running[0].history, id);
  }
  running[0].score = 0;
  std::vector<Sequence> finished(width);
  for (std::int64_t length = 1;; ++length) {
    std::vector<Sequence> top = continuations(running, vocab_size);
    keep_best(top, std::max<std::size_t>(2, 1 + num_ending) * width);
    const auto penalized = [&](double score, std::int64_t tokens) {
      return score / std::pow(static_cast<double>(tokens), params.length_penalty);
    };
    running = top;
    bool all_end = true;
    for (std::size_t rank = 0; rank < top.size(); ++rank) {
      const TokenId last = top[rank].output.back();
      const bool ends = length == longest || contains(params.stop_token_ids, last) ||
                        (!params.ignore_eos && contains(config.eos_token_ids, last));
      all_end = all_end && ends;
      if (!ends) continue;
      running[rank].score += kNothing;
      if (rank >= width) continue;
      finished.push_back(top[rank]);
      finished.back().score = penalized(top[rank].score, length);
      finished.back().finished = true;
    }
    keep_best(finished, width);
    keep_best(running, width);
    const bool full = std::ranges::all_of(finished, &Sequence::finished);
    const bool may_grow =
        params.early_stopping == EarlyStopping::kNever && params.length_penalty > 0;
    const double best = penalized(running[0].score, may_grow ? longest : length);
    const bool improves = !full || best > finished.back().score;
    if (all_end || !improves || (full && params.early_stopping == EarlyStopping::kAtOnce)) break;
  }
  std::vector<std::vector<TokenId>> outputs;
  for (Sequence& each : finished) outputs.push_back(std::move(each.output));
  return outputs;
}

std::string beam_error(const Request& request, const std::vector<std::vector<TokenId>>& expected) {
  std::vector<std::vector<TokenId>> found;
  for (const BeamSearch::Finished& each : request.beams()->search.finished()) {
    const auto& ids = each.beam.token_ids;
    found.emplace_back(ids.begin() + request.num_prompt_tokens(), ids.end());
  }
  if (found == expected) return {};
  return fmt::format("request {} found {}, alone it finds {}", request.id(), found, expected);
}

// Where a search is over, its tokens are those of the best output, which may have ended early.
std::int64_t num_given_tokens(const Request& request) {
  if (!request.is_beam_search()) return request.num_output_tokens();
  const bool over = request.beams()->search.over();
  const std::int64_t num_steps =
      over ? request.num_computed_tokens() - request.num_prompt_tokens() + 1
           : request.num_output_tokens();
  return num_steps * request.max_rows();
}

SchedulerOutput without_beams_that_go_on(
    const Scheduler& scheduler, const SchedulerOutput& plan,
    const std::vector<std::pair<RequestId, std::int32_t>>& running) {
  SchedulerOutput starts = plan;
  std::erase_if(starts.new_requests, [&](const NewRequestData& each) {
    const Request* request = scheduler.find(each.request_id);
    if (request == nullptr) return true;  // a beam that is not the first
    const std::pair<RequestId, std::int32_t> before = {each.request_id, request->num_preemptions()};
    return std::ranges::find(running, before) != running.end();
  });
  return starts;
}

}  // namespace quire
