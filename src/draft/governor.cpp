#include "draft/governor.h"

#include <algorithm>

namespace quire {

// The drafts of all offers, the most probable first; of a request in their order.
void Governor::find_chances(std::span<const DraftOffer> offers) {
  chances_.clear();
  for (std::uint32_t i = 0; i < offers.size(); ++i) {
    const DraftOffer& offer = offers[i];
    const std::size_t match_class = Acceptance::class_of(offer.match);
    double all = kFirstGuess;  // nothing known: as at the place before
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

void Governor::choose(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of) {
  for (DraftOffer& offer : offers) offer.num_chosen = 0;
  const double plain_time = time_of(num_rows);
  if (!started_) {
    saved_ = kMostSaved * plain_time;
    started_ = true;
  }
  if (saved_ <= 0) return;
  find_chances(offers);
  const auto rows = static_cast<double>(num_rows);
  double best_rate = kLeastGain * rows / plain_time;
  std::size_t best = 0;
  double tokens = rows;
  for (std::size_t i = 0; i < chances_.size(); ++i) {
    tokens += chances_[i].probability;
    const double rate = tokens / time_of(num_rows + static_cast<std::int64_t>(i) + 1);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = i + 1;
  }
  if (best > 0) {
    num_idle_ = 0;
  } else if (!chances_.empty() && chances_[0].probability > kFirstGuess &&
             ++num_idle_ >= kProbeEvery) {
    // Likely drafts, but rows that seem too dear: what they cost may have changed.
    num_idle_ = 0;
    best = 1;
  }
  for (const Chance& chance : std::span(chances_).first(best)) {
    ++offers[chance.offer].num_chosen;
  }
}

void Governor::account(std::int64_t num_rows, std::int64_t num_drafts, std::int64_t num_accepted,
                       const TimeOf& time_of) {
  if (num_rows <= 0) return;
  const double plain_step = time_of(num_rows);
  const double time = num_drafts > 0 ? time_of(num_rows + num_drafts) : plain_step;
  const double plain =
      plain_step * (1 + static_cast<double>(num_accepted) / static_cast<double>(num_rows));
  spent_ += time;
  plain_ += plain;
  saved_ = std::min(saved_ + kAllowance * time + (plain - time), kMostSaved * plain_step);
}

}  // namespace quire
