// Gives the requests of a scheduler drafts before each step: a drafter guesses, a governor says how
// many guesses are worth their rows, and what steps took and gave tells both how they did. Nothing
// of this reaches an output: drafts go to Scheduler::propose(), and into the event log. What is
// looked up is guessed first and chosen from; what is computed is guessed as far as it was chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "core/scheduler.h"
#include "draft/drafter.h"
#include "draft/governor.h"
#include "draft/row_times.h"
#include "engine/speculation_meter.h"
#include "engine/step_pacer.h"

namespace quire {

// Drafts of a request in each step: nullopt as many as the governor says, else so many where there
// are as many guesses; 0: none.
using DraftCount = std::optional<std::int32_t>;

// What a request wants, as it goes to the engine.
struct RequestSpeculation {
  DraftCount drafts;
  // Of each of its outputs, filled in until that has ended; null: nobody asks.
  std::shared_ptr<std::vector<SpeculationReport>> reports = nullptr;
};

class Speculator {
 public:
  // Of at most `max_drafts` guesses of a request in a step.
  Speculator(std::unique_ptr<Drafter> drafter, std::int32_t max_drafts, std::int64_t max_num_seqs,
             std::function<Instant()> now);

  // One of the outputs of a request that the scheduler was given; those that get drafts. `report`
  // may be null.
  void begin(RequestId request_id, DraftCount count,
             std::shared_ptr<SpeculationReport> report = nullptr);
  // It has ended, with this output.
  void end(RequestId request_id, std::span<const TokenId> output);

  // Takes in the tokens of those that run. While a step is computed the time for it is free.
  void read_ahead(const Scheduler& scheduler);

  // Calls give(request id, drafts) for each running request whose drafts are to be other ones: in
  // place of any that it has. Not where the token before them is still to come.
  using Give = std::function<void(RequestId request_id, DraftTreeView drafts)>;
  void propose(const Scheduler& scheduler, const Give& give);
  // What the last propose() took to make guesses.
  Duration drafting() const { return drafting_; }

  // A step took so long, with the drafts that were computed for it, and gave this. `drafting`: of
  // that time, what its guesses took to be made.
  void took(const SchedulerOutput& plan, const ModelRunnerOutput& result,
            std::span<const RequestStepOutput> outputs, Duration time, Duration drafting = {});

  const Governor& governor() const { return governor_; }
  const SpeculationTimes& times() const { return meter_.times(); }

 private:
  struct Followed {
    DraftCount count;
    std::shared_ptr<SpeculationReport> report;
    bool begun = false;    // the drafter knows it
    bool refused = false;  // and has no room for it
    Acceptance acceptance{0.95};
    RequestOdds odds;
    GuessProspect prospect;            // of the next step
    Draft draft;                       // for the next step
    std::vector<std::int32_t> wished;  // its parents, where it is a part of the drafter's tree
    // A guess of which it is still open whether it is right.
    Draft guess;
    std::size_t guessed_at = 0;   // tokens that the request had
    std::size_t num_learned = 0;  // tokens behind them that were compared with it
    std::int32_t last_right = DraftTreeView::kRoot;  // of the guess
  };
  Followed* follow(const Request& request);
  // One that may be given drafts in the next step.
  struct Candidate {
    const Request* request = nullptr;
    Followed* followed = nullptr;
    std::int32_t num_drafts = 0;  // at first as many as could be, then what was chosen
    std::uint32_t chosen = 0;     // of them, by bits
  };
  void learn(const Request& request, Followed& followed);
  bool learn_next(Followed& followed, TokenId token);
  void collect(const Scheduler& scheduler, const Give& give);
  std::int32_t most_guesses(std::int32_t room) const;
  void wish(const Candidate& candidate);
  void guess();
  std::size_t num_unread() const;
  void choose();
  void choose_made();
  void take_choices();
  DraftOffer offer_of(const Candidate& candidate) const;
  void select(const Candidate& candidate);
  // Of a step with so many rows, each seeing as many keys as those of the next step on average.
  double time_of(std::int64_t num_rows) const;
  double time_of(const StepWork& work) const;
  void measure(const SchedulerOutput& plan, std::span<const RequestStepOutput> outputs,
               SpeculatedStep step);

  std::unique_ptr<Drafter> drafter_;
  std::int32_t max_drafts_;
  std::function<Instant()> now_;
  Governor governor_;
  StepPacer times_{std::nullopt};
  RowTimes row_times_;
  std::int64_t fewest_rows_ = 0;  // of a step without prompts that was measured; 0: none was
  SpeculationMeter meter_;
  std::unordered_map<RequestId, Followed> followed_;
  bool timed_ = false;  // a step without prompts was measured
  bool fixed_ = false;  // drafts of the next step were not the governor's choice
  // Of the next step: its rows without drafts, and what computing drafts took.
  std::int64_t num_rows_ = 0;
  double keys_of_row_ = 0;
  Duration guessing_{};
  Duration drafting_{};        // that, and looking up
  bool read_prompts_ = false;  // which took some of that time, and need not be again
  // Of one guess more for each, lately, in nanoseconds.
  double guess_time_ = 0;
  std::int64_t num_guess_times_ = 0;
  // Of one token of a prompt that whoever guesses reads, likewise; 0: it has read none.
  double read_time_ = 0;
  std::int64_t num_read_times_ = 0;
  double output_length_ = 0;  // of outputs, lately
  std::int64_t num_lengths_ = 0;
  // Kept from step to step.
  std::vector<Candidate> candidates_;
  std::vector<DraftOffer> offers_;
  std::vector<DraftWish> wishes_;
  DraftTree given_;
};

}  // namespace quire
