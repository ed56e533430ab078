#include "core/beam_search.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

namespace quire {
namespace {

double score_of(double cumulative_logprob, std::int32_t length, double length_penalty) {
  return cumulative_logprob / std::pow(static_cast<double>(length), length_penalty);
}

Status no_search(const char* why) {
  return Status::invalid_argument(std::string("a beam search: ") + why);
}

// Of beams that go on from those before them.
std::int64_t num_forks_to(std::span<const BeamSearch::Beam> beams) {
  std::vector<std::int32_t> parents;
  for (const BeamSearch::Beam& beam : beams) parents.push_back(beam.parent);
  std::ranges::sort(parents);
  return parents.end() - std::unique(parents.begin(), parents.end());  // those there twice
}

}  // namespace

std::string_view beam_end_name(BeamEnd end) {
  switch (end) {
    case BeamEnd::kMaxTokens:
      return "max_tokens";
    case BeamEnd::kEarlyStopping:
      return "early_stopping";
    case BeamEnd::kUnlikely:
      return "unlikely";
    case BeamEnd::kNoCandidates:
      return "no_candidates";
  }
  return "unknown";
}

struct BeamSearch::Choice {
  double cumulative_logprob = 0;
  std::int32_t parent = 0;
  std::int32_t number = 0;  // of equals the one with the lower goes before
  TokenLogprob token;
};

BeamSearch::BeamSearch(const BeamSearchRules& rules, std::span<const TokenId> prompt_token_ids)
    : rules_(rules), num_prompt_tokens_(static_cast<std::int32_t>(prompt_token_ids.size())) {
  beams_.emplace_back().token_ids.assign(prompt_token_ids.begin(), prompt_token_ids.end());
}

void BeamSearch::advance(std::span<const std::span<const TokenLogprob>> candidates,
                         std::span<const TokenId> ending_token_ids) {
  assert(!over() && candidates.size() == beams_.size());
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < beams_.size(); ++i) {
    for (const TokenLogprob& token : candidates[i]) {
      choices.push_back({beams_[i].cumulative_logprob + static_cast<double>(token.logprob),
                         static_cast<std::int32_t>(i), static_cast<std::int32_t>(choices.size()),
                         token});
    }
  }
  std::ranges::sort(choices, {}, [](const Choice& choice) {
    return std::pair(-choice.cumulative_logprob, choice.number);
  });

  const auto length =
      static_cast<std::int32_t>(beams_[0].token_ids.size()) + 1 - num_prompt_tokens_;
  const auto width = static_cast<std::size_t>(rules_.width);
  std::vector<Beam> next;
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    const Choice& choice = choices[rank];
    const bool stops = std::ranges::binary_search(ending_token_ids, choice.token.token_id);
    const auto own = candidates[static_cast<std::size_t>(choice.parent)];
    if (stops || length == rules_.max_tokens) {
      if (rank < width) finish(extended(choice, own), stops, length);
    } else if (next.size() < width) {
      next.push_back(extended(choice, own));
    }
    if (rank + 1 >= width && next.size() == width) break;
  }
  num_forks_ += num_forks_to(next);
  num_output_tokens_ = length;
  beams_ = std::move(next);
  end_ = end_at(length);
}

BeamSearch::Beam BeamSearch::extended(const Choice& choice,
                                      std::span<const TokenLogprob> candidates) const {
  Beam beam = beams_[static_cast<std::size_t>(choice.parent)];
  beam.token_ids.push_back(choice.token.token_id);
  beam.cumulative_logprob = choice.cumulative_logprob;
  beam.parent = choice.parent;
  if (rules_.num_top_logprobs < 0) return beam;
  beam.logprobs.push_back(choice.token);
  const auto count = std::min(candidates.size(), static_cast<std::size_t>(rules_.num_top_logprobs));
  beam.top_logprobs.insert(beam.top_logprobs.end(), candidates.begin(),
                           candidates.begin() + static_cast<std::ptrdiff_t>(count));
  return beam;
}

// Among equals the earlier one stays first.
void BeamSearch::finish(Beam beam, bool stopped, std::int32_t length) {
  const double score = score_of(beam.cumulative_logprob, length, rules_.length_penalty);
  const auto place =
      std::ranges::upper_bound(finished_, score, std::ranges::greater(), &Finished::score);
  finished_.insert(place, {std::move(beam), score, stopped});
  if (finished_.size() > static_cast<std::size_t>(rules_.width)) finished_.pop_back();
}

double BeamSearch::best_reachable(std::int32_t length) const {
  const bool may_grow = rules_.early_stopping == EarlyStopping::kNever && rules_.length_penalty > 0;
  return score_of(beams_[0].cumulative_logprob, may_grow ? rules_.max_tokens : length,
                  rules_.length_penalty);
}

std::optional<BeamEnd> BeamSearch::end_at(std::int32_t length) const {
  if (beams_.empty()) {
    return length == rules_.max_tokens ? BeamEnd::kMaxTokens : BeamEnd::kNoCandidates;
  }
  if (finished_.size() < static_cast<std::size_t>(rules_.width)) return std::nullopt;
  if (rules_.early_stopping == EarlyStopping::kAtOnce) return BeamEnd::kEarlyStopping;
  if (best_reachable(length) > finished_.back().score) return std::nullopt;
  return BeamEnd::kUnlikely;
}

BeamReport BeamSearch::report() const {
  BeamReport report = {.width = rules_.width,
                       .num_live = static_cast<std::int32_t>(beams_.size()),
                       .num_tokens = num_output_tokens_,
                       .num_finished = static_cast<std::int32_t>(finished_.size()),
                       .num_forks = num_forks_,
                       .end = end_};
  if (!finished_.empty()) {
    report.best_score = finished_.front().score;
    report.worst_score = finished_.back().score;
  }
  if (!beams_.empty() && num_output_tokens_ > 0) {
    report.best_reachable = best_reachable(num_output_tokens_);
  }
  return report;
}

std::int32_t BeamSearch::num_common_tokens() const {
  const std::vector<TokenId>& first = beams_[0].token_ids;
  auto end = first.end();
  for (const Beam& beam : std::span(beams_).subspan(1)) {
    end = std::mismatch(first.begin(), end, beam.token_ids.begin()).first;
  }
  return static_cast<std::int32_t>(end - first.begin());
}

Result<BeamSearch> BeamSearch::restore(const BeamSearchRules& rules,
                                       std::span<const TokenId> prompt_token_ids,
                                       std::int64_t num_tokens, std::vector<Beam> beams,
                                       std::vector<Finished> finished, std::int64_t num_forks) {
  const auto width = static_cast<std::size_t>(rules.width);
  const std::int64_t num_prompt = std::ssize(prompt_token_ids);
  if (beams.empty() || beams.size() > width || finished.size() > width) {
    return no_search("it has no beam, or more than its width");
  }
  const auto is_right = [&](const Beam& beam, std::int64_t least, std::int64_t most) {
    const std::int64_t size = std::ssize(beam.token_ids);
    if (size < least || size > most || !std::isfinite(beam.cumulative_logprob)) return false;
    if (!std::equal(prompt_token_ids.begin(), prompt_token_ids.end(), beam.token_ids.begin())) {
      return false;
    }
    const std::int64_t num_output = rules.num_top_logprobs < 0 ? 0 : size - num_prompt;
    return std::ssize(beam.logprobs) == num_output &&
           std::ssize(beam.top_logprobs) <=
               num_output * std::max<std::int64_t>(rules.num_top_logprobs, 0);
  };
  if (!std::ranges::all_of(
          beams, [&](const Beam& beam) { return is_right(beam, num_tokens, num_tokens); })) {
    return no_search("a beam that cannot be");
  }
  for (std::size_t i = 0; i < finished.size(); ++i) {
    if (!is_right(finished[i].beam, num_prompt + 1, num_tokens) ||
        !std::isfinite(finished[i].score) || (i > 0 && finished[i].score > finished[i - 1].score)) {
      return no_search("a finished output that cannot be");
    }
  }
  if (num_forks < 0 || num_forks > (num_tokens - num_prompt) * (rules.width - 1)) {
    return no_search("its beams forked more often than they can");
  }
  BeamSearch search(rules, prompt_token_ids);
  search.num_output_tokens_ = static_cast<std::int32_t>(num_tokens - num_prompt);
  search.num_forks_ = num_forks;
  search.beams_ = std::move(beams);
  search.finished_ = std::move(finished);
  return search;
}

}  // namespace quire
