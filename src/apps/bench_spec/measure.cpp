#include "apps/bench_spec/measure.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "apps/statistics.h"

namespace quire {
namespace {

double median(std::vector<double> values) { return statistics(std::move(values)).p50; }

struct SpecTurn {
  double seconds = 0;  // from the first token to the end
  std::vector<TokenId> token_ids;
};

Result<SpecTurn> decode(Engine& engine, std::span<const TokenId> prompt, std::int64_t num_tokens,
                        SpecSetting setting) {
  GenerateRequest request;
  request.prompt_token_ids.assign(prompt.begin(), prompt.end());
  request.params.temperature = 0;
  request.params.ignore_eos = true;
  request.params.max_tokens = num_tokens;
  request.drafts = setting;
  SpecTurn turn;
  std::promise<Status> ended;
  const auto id = engine.submit(std::move(request), [&](const RequestOutput& output) {
    turn.token_ids.insert(turn.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
    if (!output.request_finished) return;
    if (output.metrics.finished && output.metrics.first_token) {
      const Duration time = *output.metrics.finished - *output.metrics.first_token;
      turn.seconds = std::chrono::duration<double>(time).count();
    }
    ended.set_value(output.error);
  });
  QUIRE_RETURN_IF_ERROR(id.status());
  QUIRE_RETURN_IF_ERROR(ended.get_future().get());
  return turn;
}

// Of counters that only this turn has changed.
void add_counts(const EngineStats& before, const EngineStats& after, SpecOutcome& outcome) {
  outcome.num_drafted = after.num_drafted_rows - before.num_drafted_rows;
  outcome.num_drafts = after.draft_tokens - before.draft_tokens;
  outcome.num_accepted = after.draft_tokens_accepted - before.draft_tokens_accepted;
  outcome.accepted_at.clear();
  for (std::size_t i = 0; i < after.draft_tokens_accepted_at.size(); ++i) {
    const std::int64_t count =
        after.draft_tokens_accepted_at[i] - before.draft_tokens_accepted_at[i];
    if (count == 0) break;
    outcome.accepted_at.push_back(count);
  }
}

}  // namespace

std::string spec_setting_name(SpecSetting setting) {
  if (!setting) return "auto";
  return *setting == 0 ? "off" : fmt::format("{}", *setting);
}

// The first step that gives an output a token computes its prompt.
void RowClock::stepped(const StepRecord& step) {
  if (step.shares.size() != 1 || step.shares[0].use != RowUse::kTokens) return;
  const StepShare& share = step.shares[0];
  const std::lock_guard lock(mutex_);
  const bool decodes = decoding_ == share.output_id;
  decoding_ = share.output_id;
  const auto rows = static_cast<std::size_t>(share.num_tokens);
  if (!decodes || rows > kMaxRows) return;
  seconds_[rows - 1].push_back(std::chrono::duration<double>(step.end - step.start).count());
}

double RowClock::seconds(std::int64_t rows) const {
  const std::lock_guard lock(mutex_);
  const auto& seen = seconds_[static_cast<std::size_t>(rows) - 1];
  return seen.empty() ? 0 : median(seen);
}

double RowClock::cost_of_row() const {
  const double one = seconds(1);
  if (one <= 0) return 0;
  std::vector<double> costs;
  for (std::int64_t rows = 2; rows <= static_cast<std::int64_t>(kMaxRows); ++rows) {
    const double all = seconds(rows);
    if (all > 0) costs.push_back((all / one - 1) / static_cast<double>(rows - 1));
  }
  return costs.empty() ? 0 : median(costs);
}

Result<std::vector<SpecOutcome>> measure_speculation(Engine& engine,
                                                     std::span<const TokenId> prompt,
                                                     std::int64_t num_tokens,
                                                     std::int64_t num_turns,
                                                     std::span<const SpecSetting> settings,
                                                     const InterruptWatcher& interrupt) {
  std::vector<SpecOutcome> outcomes(settings.size());
  std::vector<std::vector<double>> rates(settings.size());
  std::vector<std::vector<double>> ratios(settings.size());
  // Whose pages, threads and prefix are new.
  QUIRE_RETURN_IF_ERROR(decode(engine, prompt, std::min<std::int64_t>(num_tokens, 8), 0).status());
  for (std::int64_t turn = 0; turn < num_turns; ++turn) {
    QUIRE_ASSIGN_OR_RETURN(const SpecTurn plain, decode(engine, prompt, num_tokens, 0));
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (interrupt.interrupted()) return Status(StatusCode::kCancelled, "interrupted");
      SpecOutcome& outcome = outcomes[i];
      outcome.setting = settings[i];
      const EngineStats before = engine.observe();
      QUIRE_ASSIGN_OR_RETURN(const SpecTurn own, decode(engine, prompt, num_tokens, settings[i]));
      add_counts(before, engine.observe(), outcome);
      outcome.num_tokens = std::ssize(own.token_ids);
      outcome.same_output = outcome.same_output && own.token_ids == plain.token_ids;
      const auto decoded = static_cast<double>(own.token_ids.size() - 1);
      rates[i].push_back(decoded / std::max(own.seconds, 1e-9));
      ratios[i].push_back(plain.seconds / std::max(own.seconds, 1e-9));
    }
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    outcomes[i].tokens_per_s = median(rates[i]);
    outcomes[i].speedup = median(ratios[i]);
  }
  return outcomes;
}

}  // namespace quire
