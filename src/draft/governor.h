// How many drafts each request gets in a step: as many as make tokens come fastest, and none where
// they would come slower.
//
// A step of B requests takes T(B) and gives B tokens. With m drafts it takes T(B + m), and gives
// one token more for each draft that is right, as all before it. The drafts are sorted by how
// probable that is (Acceptance); of all m the one with the most tokens for its time is chosen (a
// draft is never more probable than the one that it follows, so whichever m it is, they are trees,
// and of a chain its beginning). With one request and drafts of which each is
// right with probability a this is the published choice of the draft's length (Leviathan et al.
// 2023, 3.5). Where guesses are computed, those of all requests at once, the longest draft's time
// is part of the step's. Where whoever computes them would have to read a request's prompt first,
// that request gets none unless its drafts save more time than that, over all tokens that it is
// thought to get.
//
// What is measured may be wrong. So an account is kept, in time: drafts are paid from it where they
// gave fewer tokens than their time would have given without them, each step pays in kAllowance of
// its time, and what right drafts have won is paid in, too, up to kMostSaved. Where it is empty,
// nothing is drafted. In the long run drafts therefore cost at most kAllowance, whatever the text
// and the machine are like (Wu et al. 2016 call this a conservative bandit). kMostSaved is what a
// text may cost after one that won: with too little, the first text whose drafts are wrong leaves
// nothing for those that follow.
//
// What others got says little about a request's own text. Where guesses are computed a request gets
// at first as many as take kFirstPrice of a step, or one, and then one, and two more for each that
// was right. After a few tokens that were found elsewhere it gets one at first and after each wrong
// one; and where most of its first guesses were wrong, it takes more tokens for more guesses: after
// texts that repeat themselves, all eight guesses after two digits look right until several have
// been wrong. For the same reason it is reckoned how much worse the luck is of a request whose
// guesses are wrong where others' were right (RequestOdds).
//
// A drafter that says how sure it is of each guess is better: how long its chains get is decided
// while they are made (draft/guess_prospect.h), and which of their guesses are checked afterwards.
//
//   governor.choose(offers, ...);       // with odds: who gets guesses at all
//   governor.prospect_of(odds, n);      // for the drafter, of each request that does
//   governor.choose_made(offers, ...);  // with what it made
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/draft_tree.h"
#include "draft/acceptance.h"
#include "draft/guess_odds.h"
#include "draft/guess_prospect.h"

namespace quire {

// A request that could be given drafts.
struct DraftOffer {
  const Acceptance* acceptance = nullptr;  // its own
  std::int32_t match = 0;                  // Draft::match
  std::int32_t num_tokens = 0;             // that were guessed, or may be; at most kMaxTreeDrafts
  std::span<const std::int32_t> parents = {};  // of them, as DraftTreeView's
  std::int32_t most = kMaxTreeDrafts;          // of them that may be chosen
  double reading = 0;      // time before its first guess, once, in time_of()'s unit
  double tokens_left = 0;  // that it is thought to get; only where it is to be read
  // Its own odds: of the guesses of a drafter that says how sure it is of them, which are a chain,
  // or of those that were found after a few tokens.
  const RequestOdds* odds = nullptr;
  std::span<const float> probabilities = {};  // of guesses that were made
  // What choose() says: how many of these, and which, by bits. Of a chain they are the first.
  std::int32_t num_chosen = 0;
  std::uint32_t chosen = 0;
};

class Governor {
 public:
  static constexpr double kAllowance = 0.01;  // of the time of steps
  // What the account holds at first, and at most: so many steps.
  static constexpr double kFirstSaved = 4;
  static constexpr double kMostSaved = 16;
  static constexpr std::int32_t kPlainEvery = 128;  // steps

  // Time of a step of so many rows, in any unit that stays the same; above 0.
  using TimeOf = std::function<double(std::int64_t rows)>;

  // `num_rows`: that the step has without drafts, those of the offers included. `guess_time`: of
  // computing one guess more for each, in time_of()'s unit; nullopt where guesses are there
  // already, and are known to be right or not even if they are not chosen.
  void choose(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
              std::optional<double> guess_time = std::nullopt);
  // Of an offer with odds of which so many guesses were chosen: how far they are worth their time.
  GuessProspect prospect_of(const RequestOdds& odds, std::int32_t num_chosen) const;
  // Which of the guesses that such offers have now are to be checked. Making all took `guessing`.
  void choose_made(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                   double guessing);

  // Whether a draft of any request was right, as Acceptance::observe().
  void observe(std::int32_t match, std::size_t place, bool right,
               std::size_t rank = Acceptance::kOnly) {
    all_.observe(Acceptance::class_of(match), place, right, rank);
    if (right) probe_model_every_ = kProbeModelEvery;
  }
  // What one that was looked up says of its request; before observe().
  void observe_found(RequestOdds& request, std::int32_t match, std::size_t place, bool right,
                     std::size_t rank) const;
  // Likewise of one whose drafter gave it this probability; and what is known of its request.
  void observe(RequestOdds& request, std::size_t place, float probability, bool right);
  // A step without prompts has ended: `num_rows` without drafts, with `num_drafts`, of which
  // `num_accepted` were right; computing them took `guessing`.
  void account(std::int64_t num_rows, std::int64_t num_drafts, std::int64_t num_accepted,
               const TimeOf& time_of, double guessing = 0);

  double saved() const { return saved_; }
  // Time of all steps that were accounted for, and what the same tokens would have taken without
  // drafts.
  double spent() const { return spent_; }
  double plain() const { return plain_; }

 private:
  std::array<double, Acceptance::kPlaces> alone(std::size_t match_class, bool computed) const;
  void find_chances(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                    std::optional<double> guess_time);
  static std::int64_t most_at_first(std::span<const DraftOffer> offers, std::int64_t num_rows,
                                    const TimeOf& time_of, double guess_time);
  static std::int64_t most_of_computed(const DraftOffer& offer, std::int64_t most_at_first);
  static std::int64_t most_of_found(const DraftOffer& offer);
  void find_chances_of(const DraftOffer& offer, std::uint32_t index, bool computed);
  // Chances that are worth their time, the first so many. `spent`: whatever is chosen.
  std::size_t num_worth(std::int64_t num_rows, const TimeOf& time_of, double spent,
                        double guess_time) const;
  bool probes(bool likely, std::int32_t every);
  bool choose_chances(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                      std::optional<double> guess_time);
  bool choose_lengths(std::span<DraftOffer> offers, std::int64_t num_rows, const TimeOf& time_of,
                      double guess_time);

  struct Chance {
    double probability = 0;
    std::uint32_t offer = 0;
    std::int32_t draft = 0;
    std::int32_t place = 0;
  };
  // Whether an offer of guesses that are computed is worth reading its prompt.
  bool pays_for_reading(const DraftOffer& offer, std::int64_t num_rows, double plain_time,
                        const TimeOf& time_of, double guess_time);
  static void choose_none(std::span<DraftOffer> offers);
  static void choose_one(const Chance& chance, std::span<DraftOffer> offers);
  static constexpr double kLeastGain = 1.01;  // for less nothing is drafted
  static constexpr double kLeastChance = 0.02;
  static constexpr double kFirstGuess = 0.5;
  static constexpr std::int32_t kProbeEvery = 128;  // steps
  // Of guesses that are computed: who takes a model for them expects that it is right, and nothing
  // is learned of those that are not made. Twice as many steps after each probe in vain.
  static constexpr double kFirstGuessOfModel = 0.8;
  // What the first guesses of all requests whose text nothing is known of may take, of a step:
  // where all of them are wrong it is lost, and where all are right, each that was not made is.
  static constexpr double kFirstPrice = 0.4;
  static constexpr std::int32_t kProbeModelEvery = 8;
  static constexpr std::int32_t kMostProbeModelEvery = 32;

  Acceptance all_{0.995};
  // Of requests whose tokens are not drawn, and of those whose tokens are; and what a request like
  // all of them may expect of the next step.
  static std::size_t kind_of(const RequestOdds& odds) { return odds.drawn() ? 1 : 0; }
  std::array<GuessOdds, 2> odds_;
  std::array<GuessProspect, 2> prospects_;
  std::vector<Chance> chances_;  // kept from call to call
  double saved_ = 0;
  double spent_ = 0;
  double plain_ = 0;
  bool started_ = false;
  std::int32_t probe_model_every_ = kProbeModelEvery;
  std::int32_t num_idle_ = 0;     // steps without drafts, though there might have been some
  std::int32_t num_drafted_ = 0;  // steps with drafts, in a row
};

}  // namespace quire
