#include "apps/bench_spec/measure.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "apps/statistics.h"
#include "base/clock.h"

namespace quire {
namespace {

double median(std::vector<double> values) { return statistics(std::move(values)).p50; }

struct SpecOutput {
  std::vector<TokenId> token_ids;
  Instant first_token{};
  Instant finished{};
  std::promise<Status> ended;
};

// Its outputs, which are alike in each setting, and the time from the first of their first tokens
// to the end of the last.
struct SpecTurn {
  double seconds = 0;
  std::vector<std::vector<TokenId>> outputs;

  std::size_t num_decoded() const {
    std::size_t count = 0;
    for (const auto& output : outputs) count += output.size() - 1;
    return count;
  }
};

Status submit(Engine& engine, GenerateRequest request, SpecOutput& spec_output) {
  const auto id = engine.submit(std::move(request), [&spec_output](const RequestOutput& output) {
    spec_output.token_ids.insert(spec_output.token_ids.end(), output.token_ids.begin(),
                                 output.token_ids.end());
    if (!output.request_finished) return;
    if (output.metrics.finished && output.metrics.first_token) {
      spec_output.first_token = *output.metrics.first_token;
      spec_output.finished = *output.metrics.finished;
    }
    spec_output.ended.set_value(output.error);
  });
  if (!id.ok()) spec_output.ended.set_value(id.status());
  return id.status();
}

Result<SpecTurn> decode(Engine& engine, std::span<const TokenId> prompt, const SpecLoad& load,
                        SpecSetting setting) {
  std::vector<SpecOutput> outputs(static_cast<std::size_t>(load.concurrency));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    GenerateRequest request;
    request.prompt_token_ids.assign(prompt.begin(), prompt.end());
    request.params.temperature = load.concurrency == 1 ? 0 : 0.7F;
    request.params.seed = i;
    request.params.ignore_eos = true;
    request.params.max_tokens = load.num_tokens;
    request.drafts = setting;
    if (!submit(engine, std::move(request), outputs[i]).ok()) outputs.resize(i + 1);
  }
  Status status;
  for (SpecOutput& output : outputs) {
    if (const Status own = output.ended.get_future().get(); !own.ok()) status = own;
  }
  QUIRE_RETURN_IF_ERROR(status);
  SpecTurn turn;
  Instant begin = outputs[0].first_token, end = outputs[0].finished;
  for (SpecOutput& output : outputs) {
    begin = std::min(begin, output.first_token);
    end = std::max(end, output.finished);
    turn.outputs.push_back(std::move(output.token_ids));
  }
  turn.seconds = to_seconds(end - begin);
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

std::optional<double> RowClock::cost_of_row() const {
  const double one = seconds(1);
  if (one <= 0) return std::nullopt;
  std::vector<double> costs;
  for (std::int64_t rows = 2; rows <= static_cast<std::int64_t>(kMaxRows); ++rows) {
    const double all = seconds(rows);
    if (all > 0) costs.push_back((all / one - 1) / static_cast<double>(rows - 1));
  }
  if (costs.empty()) return std::nullopt;
  return median(std::move(costs));
}

Result<std::vector<SpecOutcome>> measure_speculation(Engine& engine,
                                                     std::span<const TokenId> prompt,
                                                     const SpecLoad& load,
                                                     std::span<const SpecSetting> settings,
                                                     const InterruptWatcher& interrupt) {
  std::vector<SpecOutcome> outcomes(settings.size());
  std::vector<std::vector<double>> rates(settings.size());
  std::vector<std::vector<double>> ratios(settings.size());
  // Whose pages, threads and prefix are new.
  SpecLoad first = load;
  first.num_tokens = std::min<std::int64_t>(load.num_tokens, 8);
  QUIRE_RETURN_IF_ERROR(decode(engine, prompt, first, 0).status());
  for (std::int64_t turn = 0; turn < load.num_turns; ++turn) {
    QUIRE_ASSIGN_OR_RETURN(const SpecTurn plain, decode(engine, prompt, load, 0));
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (interrupt.interrupted()) return Status(StatusCode::kCancelled, "interrupted");
      SpecOutcome& outcome = outcomes[i];
      outcome.setting = settings[i];
      const EngineStats before = engine.observe();
      QUIRE_ASSIGN_OR_RETURN(const SpecTurn own, decode(engine, prompt, load, settings[i]));
      add_counts(before, engine.observe(), outcome);
      outcome.num_tokens = load.concurrency * load.num_tokens;
      outcome.same_output = outcome.same_output && own.outputs == plain.outputs;
      rates[i].push_back(static_cast<double>(own.num_decoded()) / std::max(own.seconds, 1e-9));
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
