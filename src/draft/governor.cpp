#include "draft/governor.h"

#include <algorithm>

namespace quire {

// The drafts of all offers, the most probable first; of a request in their order.
void Governor::find_chances(std::span<const DraftOffer> offers, double first_guess) {
  chances_.clear();
  for (std::uint32_t i = 0; i < offers.size(); ++i) {
    const DraftOffer& offer = offers[i];
    const std::size_t match_class = Acceptance::class_of(offer.match);
    double all = first_guess;  // nothing known: as at the place before
    double probability = 1;
    for (std::int32_t place = 0; place < offer.num_tokens; ++place) {
      const auto at = static_cast<std::size_t>(place);
      all = all_.probability(match_class, at, all);
      probability *= offer.acceptance->probability(match_class, at, all);
      if (probability < kLeastChance) break;
      chances_.push_back({probability, i, place});
    }
  }
  std::ranges::sort(chances_, [](const Chance& a, const Chance& b) {
    if (a.probability != b.probability) return a.probability > b.probability;
    return a.offer != b.offer ? a.offer < b.offer : a.place < b.place;
  });
}

std::size_t Governor::num_worth(std::int64_t num_rows, double plain_time, const TimeOf& time_of,
                                double guess_time) const {
  auto tokens = static_cast<double>(num_rows);
  double best_rate = kLeastGain * tokens / plain_time;
  std::size_t best = 0;
  std::int32_t longest = 0;
  for (std::size_t i = 0; i < chances_.size(); ++i) {
    tokens += chances_[i].probability;
    longest = std::max(longest, chances_[i].place + 1);
    const double time = time_of(num_rows + static_cast<std::int64_t>(i) + 1) + guess_time * longest;
    if (tokens / time <= best_rate) continue;
    best_rate = tokens / time;
    best = i + 1;
  }
  return best;
}

bool Governor::probes(bool likely, std::int32_t every) {
  if (!likely || ++num_idle_ < every) return false;
  num_idle_ = 0;
  return true;
}

void Governor::choose(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                      std::optional<double> guess_time) {
  for (DraftOffer& offer : offers) offer.num_chosen = 0;
  const double plain_time = time_of(num_rows);
  if (!started_) {
    saved_ = kMostSaved * plain_time;
    started_ = true;
  }
  if (saved_ <= 0) return;
  find_chances(offers, guess_time ? kFirstGuessOfModel : kFirstGuess);
  const std::size_t best = num_worth(num_rows, plain_time, time_of, guess_time.value_or(0));
  if (best > 0) {
    num_idle_ = 0;
    for (const Chance& chance : std::span(chances_).first(best)) {
      ++offers[chance.offer].num_chosen;
    }
  } else if (guess_time) {
    // One guess for each takes no longer than for one.
    if (!probes(true, kProbeModelEvery)) return;
    for (DraftOffer& offer : offers) offer.num_chosen = std::min(offer.num_tokens, 1);
  } else if (!chances_.empty() && probes(chances_[0].probability > kFirstGuess, kProbeEvery)) {
    // Likely drafts, but rows that seem too dear: what they cost may have changed.
    offers[chances_[0].offer].num_chosen = 1;
  }
}

void Governor::account(std::int64_t num_rows, std::int64_t num_drafts, std::int64_t num_accepted,
                       const TimeOf& time_of, double guessing) {
  if (num_rows <= 0) return;
  const double plain_step = time_of(num_rows);
  const double time = (num_drafts > 0 ? time_of(num_rows + num_drafts) : plain_step) + guessing;
  const double plain =
      plain_step * (1 + static_cast<double>(num_accepted) / static_cast<double>(num_rows));
  spent_ += time;
  plain_ += plain;
  saved_ = std::min(saved_ + kAllowance * time + (plain - time), kMostSaved * plain_step);
}

}  // namespace quire
