#include "draft/governor.h"

#include <algorithm>
#include <array>
#include <functional>

namespace quire {

// The drafts of all offers, the most probable first; of a request each after its parent.
void Governor::find_chances(std::span<DraftOffer> offers, std::int64_t num_rows,
                            const TimeOf& time_of, std::optional<double> guess_time) {
  const bool computed = guess_time.has_value();
  const std::int64_t at_first =
      computed ? most_at_first(offers, num_rows, time_of, *guess_time) : 0;
  chances_.clear();
  for (std::uint32_t i = 0; i < offers.size(); ++i) find_chances_of(offers[i], i, computed);
  std::ranges::sort(chances_, [](const Chance& a, const Chance& b) {
    if (a.probability != b.probability) return a.probability > b.probability;
    return a.offer != b.offer ? a.offer < b.offer : a.draft < b.draft;
  });
  std::erase_if(chances_, [&](const Chance& chance) {
    DraftOffer& offer = offers[chance.offer];
    const std::int64_t most = computed ? most_of_computed(offer, at_first) : most_of_found(offer);
    return offer.num_chosen++ >= std::min<std::int64_t>(offer.most, most);
  });
  for (DraftOffer& offer : offers) offer.num_chosen = 0;
}

// How often only choices are right at each place, over all; nothing known: as at the place before.
std::array<double, Acceptance::kPlaces> Governor::alone(std::size_t match_class,
                                                        bool computed) const {
  std::array<double, Acceptance::kPlaces> by_place{};
  double prior = computed ? kFirstGuessOfModel : kFirstGuess;
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    prior = all_.probability(match_class, place, prior);
    by_place[place] = prior;
  }
  return by_place;
}

// How many guesses each request may get that had none yet, if there is any.
std::int64_t Governor::most_at_first(std::span<const DraftOffer> offers, std::int64_t num_rows,
                                     const TimeOf& time_of, double guess_time) {
  const std::int64_t num_new = std::ranges::count_if(offers, [](const DraftOffer& offer) {
    return offer.num_tokens > 0 && offer.acceptance->empty();
  });
  if (num_new == 0) return 0;
  const double most_time = (1 + kFirstPrice) * time_of(num_rows);
  std::int64_t most = 1;
  while (most < kMaxTreeDrafts &&
         time_of(num_rows + (most + 1) * num_new) + guess_time * static_cast<double>(most + 1) <=
             most_time) {
    ++most;
  }
  return most;
}

// How many guesses a request may get, as far as its own text shows what they are like.
std::int64_t Governor::most_of_computed(const DraftOffer& offer, std::int64_t most_at_first) {
  return offer.acceptance->empty() ? most_at_first : 1 + 2 * offer.acceptance->num_right();
}

std::int64_t Governor::most_of_found(const DraftOffer& offer) {
  const Acceptance& own = *offer.acceptance;
  const std::size_t match_class = Acceptance::class_of(offer.match);
  const bool trusted = match_class > (own.mostly_wrong() ? 1U : 0U);
  return trusted ? offer.most : 1 + 2 * own.num_right_since_wrong();
}

void Governor::find_chances_of(const DraftOffer& offer, std::uint32_t index, bool computed) {
  const std::size_t match_class = Acceptance::class_of(offer.match);
  std::array<double, Acceptance::kPlaces> expected = alone(match_class, computed);
  if (!computed && match_class == 0 && offer.odds != nullptr) {
    for (double& right : expected) right = offer.odds->right(right);
  }
  struct Node {
    double probability = 0;
    std::int32_t place = -1;
    std::size_t num_children = 0;
    double left = 1;  // what its children before this one leave
    std::size_t num_offered = 0;
  };
  std::array<Node, kMaxTreeDrafts + 1> nodes{};  // behind the text, which is the first
  nodes[0].probability = 1;
  const auto parent_of = [&](std::int32_t draft) -> Node& {
    const std::int32_t parent =
        offer.parents.empty() ? draft - 1 : offer.parents[static_cast<std::size_t>(draft)];
    return nodes[static_cast<std::size_t>(parent + 1)];
  };
  for (std::int32_t draft = 0; draft < offer.num_tokens; ++draft) ++parent_of(draft).num_children;
  for (std::int32_t draft = 0; draft < offer.num_tokens; ++draft) {
    Node& parent = parent_of(draft);
    Node& node = nodes[static_cast<std::size_t>(draft + 1)];
    node.place = parent.place + 1;
    const auto place = static_cast<std::size_t>(node.place);
    const std::size_t rank =
        Acceptance::rank_of(parent.num_offered++, parent.num_children, computed);
    double all = expected[place];
    if (rank != Acceptance::kOnly) {  // nothing known: half of what those before it leave
      all = all_.probability(match_class, place, parent.left / 2, rank);
    }
    const double right = offer.acceptance->probability(match_class, place, all, rank);
    parent.left = std::max(parent.left - right, 0.0);
    node.probability = parent.probability * right;
    if (node.probability >= kLeastChance) {
      chances_.push_back({node.probability, index, draft, node.place});
    }
  }
}

std::size_t Governor::num_worth(std::int64_t num_rows, const TimeOf& time_of, double spent,
                                double guess_time) const {
  auto tokens = static_cast<double>(num_rows);
  double best_rate = kLeastGain * tokens / (time_of(num_rows) + spent);
  std::size_t best = 0;
  std::int32_t longest = 0;
  for (std::size_t i = 0; i < chances_.size(); ++i) {
    tokens += chances_[i].probability;
    longest = std::max(longest, chances_[i].place + 1);
    const double time =
        time_of(num_rows + static_cast<std::int64_t>(i) + 1) + spent + guess_time * longest;
    if (tokens / time <= best_rate) continue;
    best_rate = tokens / time;
    best = i + 1;
  }
  return best;
}

bool Governor::choose_chances(std::span<DraftOffer> offers, std::int64_t num_rows,
                              const TimeOf& time_of, std::optional<double> guess_time) {
  find_chances(offers, num_rows, time_of, guess_time);
  const std::size_t best = num_worth(num_rows, time_of, 0, guess_time.value_or(0));
  for (const Chance& chance : std::span(chances_).first(best)) choose_one(chance, offers);
  return best > 0;
}

// By what its guesses alone would save of each step, with the best number of them.
bool Governor::pays_for_reading(const DraftOffer& offer, std::int64_t num_rows, double plain_time,
                                const TimeOf& time_of, double guess_time) {
  chances_.clear();
  find_chances_of(offer, 0, true);
  std::ranges::sort(chances_, std::greater(), &Chance::probability);
  const auto rows = static_cast<double>(num_rows);
  double tokens = 1;
  double saved = 0;  // by each of its tokens
  std::int32_t longest = 0;
  for (std::size_t i = 0; i < chances_.size(); ++i) {
    tokens += chances_[i].probability;
    longest = std::max(longest, chances_[i].place + 1);
    const double time = time_of(num_rows + static_cast<std::int64_t>(i) + 1) + guess_time * longest;
    saved = std::max(saved, (plain_time * (rows - 1 + tokens) / rows - time) / tokens);
  }
  return saved * offer.tokens_left > offer.reading;
}

void Governor::choose_none(std::span<DraftOffer> offers) {
  for (DraftOffer& offer : offers) {
    offer.num_chosen = 0;
    offer.chosen = 0;
  }
}

void Governor::choose_one(const Chance& chance, std::span<DraftOffer> offers) {
  DraftOffer& offer = offers[chance.offer];
  ++offer.num_chosen;
  offer.chosen |= std::uint32_t{1} << chance.draft;
}

bool Governor::probes(bool likely, std::int32_t every) {
  if (!likely || ++num_idle_ < every) return false;
  num_idle_ = 0;
  return true;
}

void Governor::observe_found(RequestOdds& request, std::int32_t match, std::size_t place,
                             bool right, std::size_t rank) const {
  const std::size_t match_class = Acceptance::class_of(match);
  if (match_class > 0 || rank != Acceptance::kOnly) return;
  const double expected = alone(match_class, false)[place];
  request.observe(static_cast<float>(expected), expected, right);
}

void Governor::observe(RequestOdds& request, std::size_t place, float probability, bool right) {
  GuessOdds& all = odds_[kind_of(request)];
  request.observe(probability, all.right()[place][GuessOdds::class_of(probability)], right);
  all.observe(place, probability, right);
}

GuessProspect Governor::prospect_of(const RequestOdds& odds, std::int32_t num_chosen) const {
  GuessProspect prospect = prospects_[kind_of(odds)];
  prospect.shares = odds.shares(prospect.shares);
  for (GuessOdds::ByClass& by_class :
       std::span(prospect.right).first(static_cast<std::size_t>(num_chosen))) {
    for (double& right : by_class) right = odds.right(right);
  }
  return prospect;
}

// Chains whose drafter says how sure it is: whether a first guess of each is worth its time, and
// how long they may get.
bool Governor::choose_lengths(std::span<DraftOffer> offers, std::int64_t num_rows,
                              const TimeOf& time_of, double guess_time) {
  const double plain_time = time_of(num_rows);
  const std::int64_t count =
      std::ranges::count_if(offers, [](const DraftOffer& offer) { return offer.num_tokens > 0; });
  if (count == 0) return false;
  double row_time = plain_time;
  // Of the number of rows at which a further one is cheapest: that the first of them may cost more
  // is seen when the guesses are made.
  for (std::int64_t rows = count; rows <= count * std::int64_t{GuessOdds::kPlaces}; rows += count) {
    const double more = time_of(num_rows + rows) - plain_time;
    row_time = std::clamp(more / static_cast<double>(rows), 0.0, row_time);
  }
  for (std::size_t i = 0; i < odds_.size(); ++i) {
    prospects_[i] = {.shares = odds_[i].shares(),
                     .right = odds_[i].right(),
                     .num_rows = static_cast<double>(num_rows),
                     .plain_time = plain_time,
                     .row_time = row_time,
                     .guess_time = guess_time};
  }
  double saved = 0;
  for (const DraftOffer& offer : offers) {
    if (offer.num_tokens > 0) saved += prospect_of(*offer.odds, 1).saved(0, 1, 1);
  }
  if (saved <= guess_time + (kLeastGain - 1) * plain_time) return false;
  for (DraftOffer& offer : offers) {
    offer.num_chosen = std::min(offer.num_tokens, offer.most);
  }
  return true;
}

void Governor::choose_made(std::span<DraftOffer> offers, std::int64_t num_rows,
                           const TimeOf& time_of, double guessing) {
  choose_none(offers);
  chances_.clear();
  for (std::uint32_t i = 0; i < offers.size(); ++i) {
    const DraftOffer& offer = offers[i];
    const GuessProspect& all = prospects_[kind_of(*offer.odds)];
    double chance = 1;
    for (std::int32_t draft = 0; draft < offer.num_tokens; ++draft) {
      const auto place = static_cast<std::size_t>(draft);
      chance *= offer.odds->right(all.chance(place, offer.probabilities[place]));
      if (chance < kLeastChance) break;
      chances_.push_back({chance, i, draft, draft});
    }
  }
  std::ranges::stable_sort(chances_, std::greater(), &Chance::probability);
  const std::size_t best = num_worth(num_rows, time_of, guessing, 0);
  for (const Chance& chance : std::span(chances_).first(best)) choose_one(chance, offers);
}

void Governor::choose(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                      std::optional<double> guess_time) {
  choose_none(offers);
  const double plain_time = time_of(num_rows);
  if (!started_) {
    saved_ = kFirstSaved * plain_time;
    started_ = true;
  }
  if (saved_ <= 0) return;
  for (DraftOffer& offer : offers) {
    if (offer.reading <= 0) continue;
    if (!pays_for_reading(offer, num_rows, plain_time, time_of, guess_time.value_or(0))) {
      offer.num_tokens = 0;
    }
  }
  const bool sure = guess_time && !offers.empty() && offers.front().odds != nullptr;
  const bool worth = sure ? choose_lengths(offers, num_rows, time_of, *guess_time)
                          : choose_chances(offers, num_rows, time_of, guess_time);
  if (worth && num_drafted_ == kPlainEvery) {
    num_drafted_ = 0;
    return choose_none(offers);
  }
  num_drafted_ = worth ? num_drafted_ + 1 : 0;
  if (worth) {
    num_idle_ = 0;
  } else if (guess_time) {
    // One guess for each takes no longer than for one.
    if (!probes(true, probe_model_every_)) return;
    probe_model_every_ = std::min(2 * probe_model_every_, kMostProbeModelEvery);
    for (std::uint32_t i = 0; i < offers.size(); ++i) {
      if (offers[i].num_tokens > 0) choose_one({.offer = i}, offers);
    }
  } else if (!chances_.empty() && probes(chances_[0].probability > kFirstGuess, kProbeEvery)) {
    // Likely drafts, but rows that seem too dear: what they cost may have changed.
    choose_one(chances_[0], offers);
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
