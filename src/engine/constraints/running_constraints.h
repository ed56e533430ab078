// The matchers of outputs whose text is constrained: what may come next at each row that a step
// samples, and what has come. All on the engine's thread; masks are filled while the step computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "core/scheduler.h"
#include "core/step.h"
#include "engine/constraints/constraint_work.h"
#include "engine/constraints/reasoning_budget.h"
#include "exec/executor.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer.h"

namespace quire {

// The masks of a step. They stay as they are until its result is collected.
struct StepMasks {
  // A row of which nothing is left to choose: it has no mask, and what it samples must not count.
  struct Stuck {
    RequestId output_id = 0;
    std::int32_t draft = 0;
    Status reason;
  };
  // A row whose mask leaves one token, of an output that wants to be told
  // (SamplingParams::return_forced_tokens).
  struct Forced {
    RequestId output_id = 0;
    std::int32_t draft = 0;
  };
  std::vector<TokenMask> masks;
  std::vector<Stuck> stuck;
  std::vector<Forced> forced;        // in the order of the rows
  std::vector<std::uint32_t> words;  // of `masks`: the first num_words
  std::size_t num_words = 0;
};

class RunningConstraints {
 public:
  // Both outlive this. `jump_forward`: whether forced_tokens() gives any.
  RunningConstraints(const Tokenizer& tokenizer, const SteadyClock& clock, bool jump_forward = true)
      : tokenizer_(tokenizer), clock_(clock), jump_forward_(jump_forward) {}

  // One matcher for each of the request's outputs.
  void add(const AddRequest& request, const RequestConstraint& constraint);
  void remove(RequestId output_id) { outputs_.erase(output_id); }
  bool empty() const { return outputs_.empty(); }

  // The masks of the rows that the step samples, drafts' too, as far as the constraint allows the
  // drafts before them.
  void fill(const SchedulerOutput& plan, StepMasks& masks);
  // Tokens that an output has got. False: it is constrained and may not have them.
  bool take(RequestId output_id, std::span<const SampledToken> tokens);

  // The tokens that have to come next, as far as the constraint alone says it: guesses that are
  // right (jump-forward). At most kMaxForcedTokens; `tokens` is filled anew.
  static constexpr std::size_t kMaxForcedTokens = 24;
  void forced_tokens(RequestId output_id, std::vector<TokenId>& tokens);

  // The ids of all outputs of the request that one belongs to.
  struct Outputs {
    RequestId first = 0;
    std::int64_t count = 0;
  };
  Outputs siblings(RequestId output_id) const;

 private:
  // An output that runs or waits.
  struct Output {
    Output(const AddRequest& request, const RequestConstraint& constraint)
        : matcher(constraint.grammar),
          params(request.sampling_params),
          work(constraint.work),
          watch(constraint.reasoning),
          close_within(constraint.close_within),
          request_id(request.request_id) {}
    GrammarMatcher matcher;
    std::shared_ptr<const SamplingParams> params;
    std::shared_ptr<ConstraintWork> work;
    ReasoningWatch watch;
    std::optional<std::int64_t> close_within;
    RequestId request_id;
    std::int64_t num_tokens = 0;
    std::vector<TokenId> stop_ids;       // special tokens that end it besides end of sequence
    std::vector<std::uint32_t> allowed;  // allowed_token_ids; empty: all
  };

  void fill_rows(Output& output, const SchedulerOutput& plan, const ScheduledRequest& row,
                 StepMasks& masks);
  // After `num_tokens` tokens, with which `watch` is where it is. An error where nothing is left.
  Status fill_mask(Output& output, const ReasoningWatch& watch, std::int64_t num_tokens,
                   std::span<std::uint32_t> words) const;
  // The same with what else the request asks: where a text may end, its tokens that may come.
  // False: nothing is left.
  static bool narrow(Output& output, std::int64_t num_tokens, std::span<std::uint32_t> words);
  // What the constraint has no choice about, or the reasoning's budget.
  std::optional<TokenId> forced_next(Output& output, const ReasoningWatch& watch,
                                     std::int64_t num_tokens) const;
  static Status nothing_left(Output& output, std::int64_t num_tokens);

  const Tokenizer& tokenizer_;
  const SteadyClock& clock_;
  bool jump_forward_;
  std::unordered_map<RequestId, Output> outputs_;
};

}  // namespace quire
