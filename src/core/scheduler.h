// Decides what every step computes. A deterministic, single-threaded state machine: commands and
// step results in, step plans out, time as an argument; the same calls give the same plans.
//
//   Scheduler scheduler(config);                       // config.validate() passed
//   QUIRE_RETURN_IF_ERROR(scheduler.add({id, prompt, params}, now));
//   while (scheduler.has_work()) {
//     QUIRE_RETURN_IF_ERROR(scheduler.schedule(now, plan));
//     QUIRE_RETURN_IF_ERROR(executor.submit(plan));
//     QUIRE_RETURN_IF_ERROR(executor.sample({}));
//     QUIRE_RETURN_IF_ERROR(executor.collect(result));
//     QUIRE_RETURN_IF_ERROR(scheduler.update(result, now, outputs));
//   }
//
// Up to max_steps_in_flight steps may be planned before the first one's result comes: a request is
// then scheduled with a placeholder for the token that the step before gives it. Where that token
// turns out to be its last, what later steps compute for it is thrown away.
//
// There is no prefill and no decode: a request has tokens that it knows and tokens that are
// computed, and a step computes some of the difference. Requests go in an order, that of their
// arrival unless the policy is another. When blocks run out for one that runs, one of those behind
// it is preempted: it loses its blocks, keeps its tokens, waits in its place in the queue, and
// later gets back what it had computed. So the first request always advances, and nothing starves
// within a priority. Who it is, of those that the policy ranks last, and whether it computes its
// state again or has it stored below the cache, follows from what either costs
// (scheduler_preemption.cpp).
//
// Costs, as they were measured, come with the pace (set_pace). How much of the prompts a step
// computes follows from them: no more than leaves the step short enough for those who get their
// output token by token.
//
// Where there is a tier below the KV cache, full blocks that leave the prefix cache go there, and a
// request that would start, and of whose tokens the tier has more than the cache, waits until they
// are back, unless computing them is known to be faster (scheduler_tier.cpp). It keeps its place
// among those that run, others start and go on meanwhile, and each request waits so once before
// each start.
//
// A request starts with what the prefix cache has of its tokens. The n outputs of one prompt wait
// for the first of them to compute it, then share its blocks. A request whose prompt begins as that
// of one which goes before it and computes it now waits for that beginning, where this saves more
// than a step costs. A beam search is one request with a row for each of its beams, which are
// always in a step together: they share the blocks of what they have in common, and are preempted
// at once.
//
// A step's time is from when it was planned, or the step before it ended if that was later, to when
// its result is applied. It is divided among those of its requests that are there then, by the
// tokens that it computed for each, drafts included; a step of which nobody is left is nobody's.
//
// A step that starts no request and ends none allocates nothing, once its vectors have grown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/batch_former.h"
#include "core/kv_cache_manager.h"
#include "core/pinned_prefixes.h"
#include "core/preemption.h"
#include "core/request.h"
#include "core/retained_rows.h"
#include "core/scheduler_config.h"
#include "core/step.h"
#include "core/step_budget.h"
#include "core/step_pace.h"
#include "core/steps_in_flight.h"

namespace quire {

// Most drafts of a request in one step; of a longer proposal the first so many count.
inline constexpr std::int32_t kMaxDrafts = kMaxTreeDrafts;

// Why a request was refused at admission.
enum class RejectCause : std::uint8_t {
  kEmptyPrompt,
  kDuplicateId,
  kPromptTooLong,  // no room for an output token, where one is wanted, within max_model_len
  kNeverFits,      // needs more blocks than the pool has
  kQueueFull,
  kPinnedShare,  // its prompt cannot be pinned, or not besides what is
};
inline constexpr std::size_t kNumRejectCauses = 6;
std::string_view reject_cause_name(RejectCause cause);  // "empty_prompt" and so on

// Gauges, and counters since the start. A request with n outputs counts as n. For every request
// that was added, each prompt token is counted once: computed, cached (found computed by another),
// dropped (its request was aborted first), or still pending.
struct SchedulerStats {
  std::int64_t num_waiting = 0;  // preempted ones included
  std::int64_t num_running = 0;
  std::int64_t blocks_total = 0;  // = free + used; pages, where a block has several
  std::int64_t blocks_free = 0;
  std::int64_t blocks_used = 0;
  std::int64_t blocks_leaked = 0;  // always 0
  std::int64_t blocks_cached = 0;  // free, but their content may still be used
  std::int64_t blocks_shared = 0;  // used by more than one request
  std::int64_t blocks_saved = 0;   // that would be used besides, were none shared
  Duration max_step{};             // of the pace; zero: no limit
  std::int64_t blocks_tiered = 0;  // in the lower tier
  std::int64_t num_fetching = 0;   // of those that wait: for blocks from there
  std::int64_t num_pins = 0;       // prefixes that are pinned
  std::int64_t blocks_pinned = 0;  // that these hold, those of several more than once

  std::int64_t num_steps = 0;     // that were not empty
  std::int64_t num_added = 0;     // = finished + aborted + waiting + running
  std::int64_t num_finished = 0;  // by themselves: stop or length
  std::int64_t num_aborted = 0;
  std::array<std::int64_t, kNumRejectCauses> num_rejected{};
  std::int64_t num_preemptions = 0;
  std::int64_t num_preemptions_by_swap = 0;  // of these
  std::int64_t num_forks = 0;                // outputs that started with a sibling's blocks
  std::int64_t prompt_tokens_added = 0;      // = computed + cached + dropped + pending
  std::int64_t prompt_tokens_computed = 0;   // each once
  std::int64_t prompt_tokens_cached = 0;     // found in the prefix cache or with a fork's parent
  std::int64_t prompt_tokens_dropped = 0;
  std::int64_t prompt_tokens_pending = 0;
  std::int64_t output_tokens_sampled = 0;
  std::int64_t output_tokens_computed = 0;  // each once; an output's last token never is
  std::int64_t tokens_recomputed = 0;       // prompt and output, after preemptions
  // For outputs that had ended (static batching, several steps in flight) or lost their blocks, and
  // drafts that were wrong.
  std::int64_t tokens_discarded = 0;
  // Of the time of steps, what was divided among requests (Request::step_time), in nanoseconds.
  std::int64_t step_time_charged_ns = 0;
  // Tokens of requests that started, looked up in the prefix cache; and found.
  std::int64_t prefix_cache_queries = 0;
  std::int64_t prefix_cache_hits = 0;
  // Drafts: how often a request had some in a step, and how many they were. Those are accepted
  // (they were what the request got), rejected (they were not, or their request ended or was
  // preempted before it was known), or in flight.
  std::int64_t num_drafted_rows = 0;
  std::int64_t draft_tokens = 0;  // = accepted + rejected + in flight
  std::int64_t draft_tokens_accepted = 0;
  std::int64_t draft_tokens_rejected = 0;
  std::array<std::int64_t, kMaxDrafts> draft_tokens_accepted_at{};  // by place: 0 is the first
  // The lower tier: fetches that ended; blocks that were to be stored, that were fetched, and that
  // were not there any more or damaged.
  std::int64_t num_kv_fetches = 0;
  std::int64_t blocks_offloaded = 0;
  std::int64_t blocks_fetched = 0;
  std::int64_t blocks_fetch_failed = 0;
  // Tokens of requests that started which were not in the prefix cache before; and that were
  // fetched.
  std::int64_t external_prefix_cache_queries = 0;
  std::int64_t external_prefix_cache_hits = 0;

  bool operator==(const SchedulerStats&) const = default;
};

// What a step gave for a request: sampled tokens, or the hidden state of a pooling request, which
// has no token. When it ended its request, the request itself is handed out: reason, all tokens,
// times and waits.
struct RequestStepOutput {
  RequestId request_id = 0;
  // Its tokens are [first_sampled, first_sampled + num_sampled) of ModelRunnerOutput::sampled; none
  // comes after the one that ended it. Of a beam search there are none, and an output only when it
  // is over: what it has found is in `finished`.
  std::int32_t first_sampled = 0;
  std::int32_t num_sampled = 0;
  std::int32_t pooled_index = -1;           // in ModelRunnerOutput::pooled; -1: not pooled
  std::unique_ptr<const Request> finished;  // null while the request goes on
};

// Blocks of these tokens that are on their way from the lower tier.
struct KvFetch {
  FetchId id = 0;
  CacheScope scope;
  std::vector<TokenId> tokens;       // of full blocks
  std::int32_t num_cached = 0;       // of these, blocks that need not come
  std::vector<std::uint64_t> names;  // the first words of the others'

  bool operator==(const KvFetch&) const = default;
};

struct SchedulerSnapshot;  // core/scheduler_snapshot.h

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config);  // validate() must have passed

  // Queues a request. Refuses one that breaks a limit (kInvalidArgument; kResourceExhausted where
  // the pool is too small for it or the queue is full), and counts the refusal by cause.
  Status add(const AddRequest& request, Instant now);

  // Ends a request (one of n outputs) in whatever state it is and hands it out; nullptr if there is
  // none (it may just have finished). Its blocks are free at once: steps in flight may still write
  // into them, but steps are executed in order, so before any later step.
  std::unique_ptr<const Request> abort(RequestId request_id, Instant now);

  // The prefix cache is as at the start, but for what requests use now: that later ones may find.
  // Nothing is pinned any more.
  void reset_prefix_cache();
  // Unpins what AddRequest::pin has pinned; false: there is no such pin.
  bool unpin(PinId pin_id);
  const PinnedPrefixes& pinned() const { return pinned_; }

  // What has become of the lower tier, and of the fetches that were planned.
  void take_in(const TierReport& report, Instant now);
  // Requests, among those that wait, for which blocks come from there, and fetches in flight, also
  // those whose requests are gone.
  std::span<const Request* const> fetching() const { return fetching_; }
  std::size_t num_fetches_in_flight() const { return fetches_.size(); }

  // Guesses at the next tokens of a request, which must be of the vocabulary: a valid tree, but for
  // its size. Its next step that computes its last known token checks as many as there is room for,
  // the first at most kMaxDrafts; of a request whose text is constrained, the first path. They come
  // in place of those that it had; none: it has none. Drafts change no token. No effect on a
  // request that does not run, on a beam search, in static batches, and where a KV group keeps
  // states, from which no token can be removed.
  void propose(RequestId request_id, DraftTreeView drafts);

  // How long the steps planned from now on may take, and what their work and fetches are thought
  // to; validate() must have passed. At first there is no limit, and no cost is known.
  void set_pace(const StepPace& pace) { pace_ = pace; }
  const StepPace& pace() const { return pace_; }

  // Plans the next step into `plan`, whatever is in it. An empty plan (see SchedulerOutput::empty)
  // needs no execution and has no id; any other is in flight until update() is given its result.
  // kInternal if max_steps_in_flight steps are.
  Status schedule(Instant now, SchedulerOutput& plan);

  // Applies the result of the oldest step in flight; `outputs` gets what it gave in the order of
  // the plan, without those of requests aborted meanwhile. kInternal, and nothing changed, if the
  // result does not belong to the plan.
  Status update(const ModelRunnerOutput& output, Instant now,
                std::vector<RequestStepOutput>& outputs);

  // Whether schedule() would give anything but an empty plan, now or after the steps in flight.
  bool has_work() const;
  std::size_t num_steps_in_flight() const { return steps_.size(); }
  // When schedule() is to be called next if nothing else happens: Instant::zero(), which is at
  // once, or nullopt, which is after the next add, abort or update. With steps in flight there may
  // be nothing to plan even so.
  std::optional<Instant> next_deadline() const;

  const Request* find(RequestId request_id) const;  // waiting or running; nullptr otherwise
  std::span<const Request* const> running() const { return running_; }  // in order
  // In order, the first one last; next_waiting() may be another where the policy is no order.
  std::span<const Request* const> waiting() const { return waiting_; }
  const KvCacheManager& kv_cache() const { return kv_; }
  const BlockTable* find_blocks(RequestId request_id) const { return kv_.find(request_id); }
  const SchedulerConfig& config() const { return config_; }
  SchedulerStats stats() const;

  // All of its state but drafts, between two steps: kInternal while one is in flight.
  Result<SchedulerSnapshot> snapshot() const;
  // A scheduler that goes on exactly as the one that the snapshot was taken of. The snapshot may
  // come from anywhere: kInvalidArgument names what no scheduler could be in, kResourceExhausted
  // what is larger than any that is real.
  static Result<std::unique_ptr<Scheduler>> restore(SchedulerSnapshot snapshot);

  // kInternal naming the first broken law: queues in order and disjoint, blocks held
  // exactly by the running and as many as their tokens need, references, budgets, conservation.
  // O(requests + blocks).
  Status check_invariants() const;

 private:
  struct Refusal {
    RejectCause cause;
    Status status;
  };

  // How a waiting request would start: with which tokens computed already, and how many more.
  struct Admission {
    const Request* fork_parent = nullptr;
    const Request* computes_prefix = nullptr;
    KvCacheManager::TierMatch tier;
    KvCacheManager::PrefixMatch match;
    std::int32_t num_computed_tokens = 0;
    std::int32_t num_tokens = 0;
  };
  bool goes_before(const Request& a, const Request& b) const;
  Request& next_waiting() const;  // there is one
  Request& least_served() const;
  Request& longest_prefix() const;
  void give_way(SchedulerOutput& plan, Instant now);
  Request* who_gives_way_to(const Request& request) const;
  bool lacks_place(const Request& request) const;
  // Preemption (scheduler_preemption.cpp).
  std::int64_t preemption_rank(const Request& request) const;
  // The least is preempted first, of requests of one rank.
  struct Standing {
    bool frees_nothing = false;
    bool recomputes = false;  // what it lost when it was preempted before
    double cost = 0;          // nanoseconds, for each page
    auto operator<=>(const Standing&) const = default;
  };
  Standing standing_of(const Request& request) const;
  Preemption assess(const Request& request) const;
  Request& next_victim(Request& request) const;
  bool make_room(Request& request, std::int32_t num_tokens, SchedulerOutput& plan, Instant now);
  void preempt(Request& request, const Request& for_request, SchedulerOutput& plan, Instant now);
  void leave_queue(Request& request);
  void enqueue(Request& request);
  std::optional<Refusal> admission_refusal(const AddRequest& request) const;
  std::optional<Refusal> beam_refusal(const AddRequest& request) const;
  // Pinned prefixes (scheduler_pins.cpp).
  std::optional<Refusal> pin_refusal(const AddRequest& request) const;
  std::int32_t blocks_to_pin(std::int64_t num_prompt_tokens) const;
  std::int64_t num_pages_to_be_pinned() const;
  void pin(const Request& request);
  Status check_pins() const;
  void form_batch(Instant now);
  Instant oldest_arrival() const;
  StepBudget budget_of_step() const;
  void plan_running(StepBudget& budget, SchedulerOutput& plan, Instant now);
  void plan_waiting(StepBudget& budget, SchedulerOutput& plan, Instant now);
  // Drafts (scheduler_drafts.cpp).
  bool wants_drafts(const Request& request) const;
  std::int32_t num_drafts_wanted(const Request& request) const;
  void find_needs();
  // Into drafts_, which are empty. The request is that before `place`.
  void plan_drafts(const Request& request, const StepBudget& budget, std::size_t place);
  std::int32_t plan_branches(const Request& request, std::int32_t num_computed_tokens,
                             SchedulerOutput& plan);
  Status check_drafted(const StepsInFlight::Share& share, std::span<const SampledToken> tokens,
                       StepId step_id) const;
  void settle_drafts(const StepsInFlight::Share& share, std::span<const SampledToken> tokens);
  static std::int32_t chunk_that_fits(const Request& request, const StepBudget& budget,
                                      bool urgent);
  std::int64_t pages_to_start(const Request& request) const;
  void hold(Request& request, WaitCause cause, const Admission& admission, Instant now);
  Blockers others_running(const Request& request) const;
  std::optional<WaitCause> batch_obstacle(const Request& request) const;
  std::optional<WaitCause> admission_obstacle(const Request& request, const StepBudget& budget,
                                              Admission& admission) const;
  const Request* find_fork_parent(const Request& request) const;
  KvCacheManager::PrefixMatch match_prefix(const Request& request) const;
  static std::int32_t most_found(const Request& request);
  bool worth_waiting_for(std::int32_t num_tokens) const;
  struct PrefixInFlight {
    const Request* computed_by = nullptr;
    std::int32_t num_tokens = 0;  // more than are found
  };
  PrefixInFlight prefix_in_flight(const Request& request, std::int32_t num_found) const;
  PrefixMiss explain_miss(const Request& request, const Admission& admission) const;
  void start(Request& request, const Admission& admission, SchedulerOutput& plan, Instant now);
  // The lower tier (scheduler_tier.cpp).
  KvCacheManager::TierMatch worth_fetching(const Request& request,
                                           const KvCacheManager::PrefixMatch& match) const;
  const KvFetch* fetch_that_brings(const BlockName& name) const;
  void begin_fetch(Request& request, const Admission& admission, SchedulerOutput& plan);
  void end_fetch(const TierReport::Fetched& fetched, Instant now);
  std::int64_t num_rows_fetching() const;
  void count_tier(const Request& request, std::int32_t num_computed_tokens);
  Status check_fetches() const;
  void announce(const Request& request, std::size_t row, SchedulerOutput& plan);
  // What the next step computes of each of a request's rows: so many tokens, then drafts_.
  void plan_tokens(Request& request, std::int32_t num_tokens, SchedulerOutput& plan, Instant now);
  std::int32_t plan_retained_rows(std::int32_t most, SchedulerOutput& plan);
  void drop_retained_rows(std::size_t num_left) {
    retained_.drop(num_left, kv_, removed_request_ids_);
  }
  Status check_result(const ModelRunnerOutput& output) const;
  Status check_sampled(const ModelRunnerOutput& output) const;
  Status check_pooled(const ModelRunnerOutput& output) const;
  // Divides the time of the step that has landed among those of its requests that are still there.
  void charge(Duration time);
  void take_in(const StepsInFlight::Share& share, std::span<const SampledToken> tokens,
               RequestStepOutput& given, Instant now);
  void end(Request& request, RequestStepOutput& given);
  // Beams (scheduler_beams.cpp).
  std::int64_t num_rows_running() const;
  std::int64_t branch_pages(const Request& request) const;
  void part_beams(Request& request);
  void announce_beams(Request& request, SchedulerOutput& plan);
  void take_in_beams(const StepsInFlight::Share& share, const ModelRunnerOutput& output,
                     std::span<const SampledToken> sampled, Instant now);
  void follow_beams(Request& request);
  static Status check_candidates(const SampledToken& token, const ModelRunnerOutput& output);
  void count(const Request::Computed& computed);
  void count_drafts(Request& request, std::int32_t num_accepted, std::int32_t num_rejected);
  std::unique_ptr<const Request> take(Request& request, bool retain_row);
  void let_go(const Request& request, bool at_rest, std::vector<RequestId>& removed);
  Status restore_requests(std::vector<RequestSnapshot>& requests, RequestState state,
                          std::vector<Request*>& queue);
  Status check_queues() const;
  Status check_steps_in_flight() const;
  Status check_conservation() const;

  SchedulerConfig config_;
  KvCacheManager kv_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  BatchFormer batch_;
  StepPace pace_;
  std::vector<Request*> waiting_;  // in order, the first one last, so that it leaves at no cost
  std::vector<Request*> running_;  // in order
  std::vector<Request*> fetching_;
  std::vector<KvFetch> fetches_;
  FetchId last_fetch_id_ = 0;
  bool waits_for_fetch_ = false;  // nothing can be planned before a fetch has ended
  RetainedRows retained_;
  PinnedPrefixes pinned_;
  std::vector<RequestId> removed_request_ids_;     // to be told to the executor with the next plan
  std::vector<BlockTruncation> truncated_tables_;  // likewise
  std::vector<BlockReplacement> adopted_blocks_;   // likewise
  // Of the request that is planned: the drafts that its step computes, in order of their paths.
  DraftTree drafts_;
  std::vector<DraftPath> draft_paths_;
  // Of each running request and those after it: free pages that their next tokens need at most,
  // without drafts. Only where some have drafts.
  std::vector<std::int64_t> needs_;
  StepsInFlight steps_;
  std::vector<StepsInFlight::Share> landed_;  // of the step whose result is applied
  Instant last_end_{};                        // of the step before it
  std::uint64_t num_arrivals_ = 0;
  FairShares shares_;
  std::int32_t num_overtaken_ = 0;  // how often the first of those that wait has been, in a row
  SchedulerStats counters_;         // the counters; stats() fills in the gauges
};

}  // namespace quire
