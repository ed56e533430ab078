#include "apps/bench_spec/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <semaphore>
#include <utility>

#include <fmt/format.h>

#include "apps/statistics.h"
#include "base/clock.h"

namespace quire {
namespace {

double median(std::vector<double> values) { return statistics(std::move(values)).p50; }

// Of several outputs at once, each place has so many one after another: while the last ones end,
// fewer decode at once, and which these are is another question than what a step costs.
constexpr std::int64_t kOutputsOfAPlace = 3;

// Where in each round the turns without guesses are, which all are compared with: one before the
// first setting and one after it.
constexpr std::size_t kFirstOff = 0;
constexpr std::size_t kSecondOff = 2;
constexpr std::size_t kPlainTurns = 2;

struct SpecOutput {
  std::vector<TokenId> token_ids;
  std::vector<Instant> arrivals;  // of each token
  std::promise<Status> ended;
};

// Its outputs, which are alike in each setting, and how fast tokens came while all places decoded.
struct SpecTurn {
  double tokens_per_s = 0;
  std::vector<std::vector<TokenId>> outputs;
};

GenerateRequest request_of(const SpecPrompt& prompt, const SpecLoad& load, SpecSetting setting,
                           std::size_t output) {
  GenerateRequest request;
  request.prompt_token_ids = prompt.token_ids;
  request.params.temperature = load.concurrency == 1 ? 0 : 0.7F;
  if (!prompt.random_of.empty()) request.params.temperature = SamplingParams::kMaxTemperature;
  request.params.allowed_token_ids = prompt.random_of;
  request.params.seed = output;
  request.params.ignore_eos = true;
  request.params.max_tokens = load.num_tokens_of(static_cast<std::int64_t>(output));
  request.drafts = setting;
  return request;
}

Status submit(Engine& engine, GenerateRequest request, SpecOutput& spec_output,
              std::counting_semaphore<>& places) {
  const auto id =
      engine.submit(std::move(request), [&spec_output, &places](const RequestOutput& output) {
        spec_output.token_ids.insert(spec_output.token_ids.end(), output.token_ids.begin(),
                                     output.token_ids.end());
        spec_output.arrivals.resize(spec_output.token_ids.size(), Instant(steady_now_ns()));
        if (!output.request_finished) return;
        places.release();  // first: what waits for the end may destroy it
        spec_output.ended.set_value(output.error);
      });
  if (!id.ok()) spec_output.ended.set_value(id.status());
  return id.status();
}

// From when each place has decoded a token to when the first has nothing more to decode.
double rate_of(std::span<const SpecOutput> outputs, std::size_t num_places) {
  Instant begin{};
  for (const SpecOutput& output : outputs.first(num_places)) {
    begin = std::max(begin, output.arrivals.front());
  }
  std::vector<Instant> ends;
  for (const SpecOutput& output : outputs) ends.push_back(output.arrivals.back());
  std::ranges::sort(ends);
  const Instant end = ends[outputs.size() - num_places];
  std::int64_t count = 0;
  for (const SpecOutput& output : outputs) {
    count += std::ranges::count_if(
        output.arrivals, [&](Instant arrival) { return arrival > begin && arrival <= end; });
  }
  return static_cast<double>(count) / std::max(to_seconds(end - begin), 1e-9);
}

Result<SpecTurn> decode(Engine& engine, const SpecPrompt& prompt, const SpecLoad& load,
                        SpecSetting setting) {
  std::vector<SpecOutput> outputs(static_cast<std::size_t>(load.num_outputs()));
  std::counting_semaphore<> places(load.concurrency);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    places.acquire();
    if (!submit(engine, request_of(prompt, load, setting, i), outputs[i], places).ok()) {
      outputs.resize(i + 1);
    }
  }
  Status status;
  for (SpecOutput& output : outputs) {
    if (const Status own = output.ended.get_future().get(); !own.ok()) status = own;
  }
  QUIRE_RETURN_IF_ERROR(status);
  SpecTurn turn;
  turn.tokens_per_s = rate_of(outputs, static_cast<std::size_t>(load.concurrency));
  for (SpecOutput& output : outputs) turn.outputs.push_back(std::move(output.token_ids));
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

// What this turn has added.
void add_times(const SpeculationTimes& before, const SpeculationTimes& after,
               SpeculationTimes& all) {
  all.draft += after.draft - before.draft;
  all.verify += after.verify - before.verify;
  all.plain += after.plain - before.plain;
  all.taken += after.taken - before.taken;
  all.num_compared += after.num_compared - before.num_compared;
}

}  // namespace

std::int64_t SpecLoad::num_outputs() const {
  return concurrency == 1 ? 1 : concurrency * kOutputsOfAPlace;
}

std::int64_t SpecLoad::num_tokens_of(std::int64_t output) const {
  if (concurrency == 1) return num_tokens;
  constexpr double kGolden = 0.6180339887498949;  // its multiples are spread evenly over [0, 1)
  const double spread = kGolden * static_cast<double>(output);
  const double share = 0.5 + spread - std::floor(spread);
  return std::max<std::int64_t>(std::llround(share * static_cast<double>(num_tokens)), 2);
}

std::int64_t SpecLoad::num_turns_of_all(std::size_t num_settings) const {
  return num_turns * static_cast<std::int64_t>(num_settings + kPlainTurns);
}

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

std::optional<double> RowCosts::in_steps(std::int64_t rows) const {
  const auto index = static_cast<std::size_t>(rows) - 1;
  if (index < seconds.size() && seconds[index] > 0 && seconds[0] > 0) {
    return seconds[index] / seconds[0];
  }
  if (!row) return std::nullopt;
  return 1 + *row * static_cast<double>(rows - 1);
}

RowCosts RowClock::costs() const {
  const std::lock_guard lock(mutex_);
  RowCosts costs;
  for (const auto& seen : seconds_) costs.seconds.push_back(seen.empty() ? 0 : median(seen));
  const double one = costs.seconds[0];
  if (one <= 0) return costs;
  std::vector<double> rows;
  for (std::size_t more = 1; more < costs.seconds.size(); ++more) {
    const double all = costs.seconds[more];
    if (all > 0) rows.push_back((all / one - 1) / static_cast<double>(more));
  }
  if (!rows.empty()) costs.row = median(std::move(rows));
  return costs;
}

Result<std::vector<SpecOutcome>> measure_speculation(
    Engine& engine, const SpecPrompt& prompt, const SpecLoad& load,
    std::span<const SpecSetting> settings, const InterruptWatcher& interrupt,
    const std::function<void(SpecSetting)>& turned) {
  // Each round begins with another turn: what one leaves behind for the next falls on all alike.
  std::vector<SpecSetting> all(settings.begin(), settings.end());
  for (const std::size_t at : {kFirstOff, kSecondOff}) {
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), 0);
  }
  std::vector<SpecOutcome> outcomes(all.size());
  std::vector<std::vector<double>> rates(all.size());
  std::vector<std::vector<double>> ratios(all.size());
  std::vector<SpeculationTimes> times(all.size());
  // Whose pages, threads and prefix are new.
  SpecLoad first = load;
  first.num_tokens = std::min<std::int64_t>(load.num_tokens, 8);
  QUIRE_RETURN_IF_ERROR(decode(engine, prompt, first, 0).status());
  for (std::int64_t turn = 0; turn < load.num_turns; ++turn) {
    std::vector<SpecTurn> turns(all.size());
    std::vector<EngineStats> before(all.size());
    std::vector<EngineStats> after(all.size());
    for (std::size_t n = 0; n < all.size() && !interrupt.interrupted(); ++n) {
      const std::size_t i = (n + static_cast<std::size_t>(turn)) % all.size();
      before[i] = engine.observe();
      QUIRE_ASSIGN_OR_RETURN(turns[i], decode(engine, prompt, load, all[i]));
      after[i] = engine.observe();
      turned(all[i]);
    }
    if (interrupt.interrupted()) {  // what this round has is not compared with anything
      if (turn == 0) return Status(StatusCode::kCancelled, "interrupted");
      break;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      add_counts(before[i], after[i], outcomes[i]);
      add_times(before[i].speculation, after[i].speculation, times[i]);
    }
    const double plain = (turns[kFirstOff].tokens_per_s + turns[kSecondOff].tokens_per_s) / 2;
    for (std::size_t i = 0; i < all.size(); ++i) {
      outcomes[i].same_output =
          outcomes[i].same_output && turns[i].outputs == turns[kFirstOff].outputs;
      rates[i].push_back(turns[i].tokens_per_s);
      ratios[i].push_back(turns[i].tokens_per_s /
                          (i == kSecondOff ? turns[kFirstOff].tokens_per_s : plain));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcomes[i].setting = all[i];
    outcomes[i].num_turns = std::ssize(rates[i]);
    for (std::int64_t output = 0; output < load.num_outputs(); ++output) {
      outcomes[i].num_tokens += load.num_tokens_of(output);
    }
    outcomes[i].tokens_per_s = median(rates[i]);
    std::ranges::sort(ratios[i]);
    outcomes[i].speedup = percentile(ratios[i], 0.5);
    outcomes[i].speedup_p25 = percentile(ratios[i], 0.25);
    outcomes[i].speedup_p75 = percentile(ratios[i], 0.75);
    outcomes[i].draft_seconds = to_seconds(times[i].draft);
    outcomes[i].verify_seconds = to_seconds(times[i].verify);
    outcomes[i].told_speedup = times[i].speedup();
  }
  std::swap(outcomes[kFirstOff], outcomes[kSecondOff]);
  outcomes.erase(outcomes.begin() + kSecondOff);  // what the others were compared with
  return outcomes;
}

}  // namespace quire
