// One server in virtual time: the real scheduler, whose steps take what a cost model says. Nothing
// is computed; outputs end where the traffic says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/scheduler.h"
#include "core/step_pace.h"
#include "sim/recorded_drafts.h"
#include "sim/simulated_tier.h"

namespace quire {

inline constexpr Instant kNoEvent = Instant(std::numeric_limits<Instant::rep>::max());

// Devices that a step passes one after the other, while other steps are in those before and
// behind.
class Pipeline {
 public:
  explicit Pipeline(int num_stages) : free_(static_cast<std::size_t>(num_stages)) {}

  // When a step that is ready at `now` has passed the last stage, after so long in each. Calls come
  // in the order in which steps are ready.
  Instant pass(Instant now, std::span<const Duration> times);
  std::size_t num_stages() const { return free_.size(); }

 private:
  std::vector<Instant> free_;  // when each stage has done with the steps so far
};

// Guesses at tokens, and how often they are right.
struct SimulatedDrafts {
  // Of the guess at each place, how often it is right where those before it were; so many guesses
  // are made in each step for each request that has an output. Empty: none.
  std::vector<double> acceptance;
  Duration time{};  // to make one guess for each request of a step
  // Says instead how many guesses there are, at most as many as `acceptance` has, and which are
  // right, of request number id - 1.
  std::shared_ptr<const RecordedDrafts> recorded = nullptr;

  bool any() const { return !acceptance.empty(); }
};

// What steps may take and cost, by what they took: told of each, and of the fetches that have ended
// since the one before, it says what of the next ones.
using SimulatedPacer = std::function<StepPace(const StepWork& work, Duration time,
                                              std::span<const TierReport::Fetched> fetches)>;

struct ServerConfig {
  SchedulerConfig scheduler;  // validate() passes
  StepPace pace;              // of the first step, and of all where nothing makes a pacer
  std::function<SimulatedPacer()> make_pacer;
  SimulatedTierConfig tier;  // where scheduler.kv_tier is set
  // The token at this place of a request's sequence, where it is output.
  std::function<TokenId(RequestId request_id, std::int64_t place)> output;
  // In a stage, with what brings it there, of a step with these scheduled rows and
  // total_num_scheduled_tokens; no more is said of it.
  std::function<Duration(const SchedulerOutput&, std::size_t stage)> step_time;
  SimulatedDrafts drafts;
  // Prompts come with their keys and values, all but those of the last token: to compute these
  // takes no time.
  bool receives_prompts = false;
};

// Over the steps of servers.
struct StepTotals {
  Duration busy{};
  Duration time{};          // from their starts to their ends: more, where they wait for a stage
  Duration longest_step{};  // that gave some request a token after its first
  std::int64_t num_steps = 0;
  // Times seconds of `time`.
  double running = 0;
  double kv_used = 0;
  double kv_waste = 0;
};

// Adds a step that has been planned and whose result is not known yet; all but `busy`.
void count_step(const SchedulerOutput& plan, const Scheduler& scheduler, Duration time,
                StepTotals& totals);

class SimulatedServer {
 public:
  // Both outlive it.
  SimulatedServer(const ServerConfig& config, Pipeline& pipeline)
      : config_(config),
        pipeline_(pipeline),
        scheduler_(config.scheduler),
        tier_(config.tier, {}, 0) {
    scheduler_.set_pace(config.pace);
    if (config.make_pacer) pacer_ = config.make_pacer();
  }

  std::size_t load() const { return scheduler_.running().size() + scheduler_.waiting().size(); }
  Instant next_event() const {
    return in_flight_ ? end_ : std::min(wakes_, tier_.next_end().value_or(kNoEvent));
  }
  Duration fetch_time() const { return tier_.fetch_time(); }
  const Scheduler& scheduler() const { return scheduler_; }

  // A refusal is counted by its cause, in the scheduler's statistics.
  void add(const AddRequest& request, Instant now);

  using Ended = std::vector<std::unique_ptr<const Request>>;
  // The step that ends now, if one does, and the next. `ended` gets, behind what it has, who has
  // ended. kInternal for a law of the scheduler that is broken.
  Status advance(Instant now, StepTotals& totals, Ended& ended);

 private:
  Status end_step(Instant now, Ended& ended);
  void sample(const ScheduledRequest& row);
  void propose();
  std::size_t num_guesses(RequestId request_id, std::int64_t place) const;
  bool is_right(RequestId request_id, std::int64_t place, std::size_t draft) const;
  const SchedulerOutput& without_received();
  void time_step();

  const ServerConfig& config_;
  Pipeline& pipeline_;
  Scheduler scheduler_;
  SimulatedTier tier_;
  TierReport tier_report_;
  std::vector<TierReport::Fetched> fetched_;  // since the step before, where there is a pacer
  SimulatedPacer pacer_;
  SchedulerOutput plan_;
  SchedulerOutput priced_;
  std::vector<Duration> times_;  // of the step, in each stage
  ModelRunnerOutput output_;
  std::vector<RequestStepOutput> outputs_;
  std::vector<TokenId> guesses_;
  std::unordered_set<RequestId> received_;  // whose prompts have come and are not in a step yet
  bool in_flight_ = false;
  Instant begun_{};  // when the step in flight was planned, and when it ends
  Instant end_{};
  Instant wakes_ = kNoEvent;  // when there is something to plan
};

}  // namespace quire
