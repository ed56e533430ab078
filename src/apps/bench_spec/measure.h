// Decodes a text again and again, with guesses and without, in turns, so that what the machine does
// meanwhile falls on all alike.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "apps/interrupt.h"
#include "engine/api.h"

namespace quire {

// One way to decode: GenerateRequest::drafts.
using SpecSetting = std::optional<std::int32_t>;
std::string spec_setting_name(SpecSetting setting);  // "off", "auto", "4"

// What is decoded, and how often.
struct SpecLoad {
  std::int64_t num_tokens = 200;  // of an output; of several at once the mean
  std::int64_t num_turns = 5;     // in each setting
  std::int64_t concurrency = 1;   // outputs at once

  std::int64_t num_outputs() const;  // in all
  // Of several at once, half of the mean to one and a half: were all alike, each wave of outputs
  // would end, and the next one's prompts be computed, within a step or two, and a few tokens more
  // or less would decide whether the time that is measured has one more wave of prompts in it.
  std::int64_t num_tokens_of(std::int64_t output) const;
  // Turns that measure_speculation() takes for so many settings.
  std::int64_t num_turns_of_all(std::size_t num_settings) const;
};

// What an output continues.
struct SpecPrompt {
  std::vector<TokenId> token_ids;
  std::vector<TokenId> random_of = {};  // the output is drawn of these alone, each as likely
};

struct SpecOutcome {
  SpecSetting setting;
  std::int64_t num_turns = 0;
  double tokens_per_s = 0;  // while all places decode; the median
  // The ratio to the mean of both turns of `off` before and after, of `off` that of these two: its
  // median over the rounds and quartiles.
  double speedup = 1;
  double speedup_p25 = 1;
  double speedup_p75 = 1;
  // Of one turn: with the number of guesses fixed each turn is the same.
  std::int64_t num_tokens = 0;
  std::int64_t num_drafted = 0;  // steps with guesses
  std::int64_t num_drafts = 0;
  std::int64_t num_accepted = 0;
  std::vector<std::int64_t> accepted_at;  // by place
  // Of all turns, as the engine tells them (engine/speculation_report.h): seconds to make guesses
  // and of steps with guesses, and the speed-up by its estimate.
  double draft_seconds = 0;
  double verify_seconds = 0;
  std::optional<double> told_speedup;
  bool same_output = true;  // as `off`

  // Tokens of a step that had guesses, on average.
  double block_efficiency() const {
    return num_drafted == 0
               ? 1
               : 1 + static_cast<double>(num_accepted) / static_cast<double>(num_drafted);
  }
};

// What steps of one sequence take, by their rows.
struct RowCosts {
  std::vector<double> seconds = {};  // medians of steps of 1, 2, ... rows; 0: there was none
  std::optional<double> row = {};    // one row more, in steps of one: the median over all rows

  // A step of so many rows in steps of one: as it was measured, else by `row`.
  std::optional<double> in_steps(std::int64_t rows) const;
};

// Fill it as EngineObserver::stepped.
class RowClock {
 public:
  void stepped(const StepRecord& step);
  RowCosts costs() const;

 private:
  static constexpr std::size_t kMaxRows = 33;
  mutable std::mutex mutex_;
  std::array<std::vector<double>, kMaxRows> seconds_;
  RequestId decoding_ = 0;  // the last output that has sampled
};

// Decodes `prompt` without guesses and in each setting, of which there is at least one: one output
// greedily; several at once with temperature 0.7 and a seed each, so that they differ, and the next
// one where one has ended. A random one is drawn with the hottest temperature. The outcome without
// guesses comes first. `turned` is called after each turn with its setting. An interrupt ends it
// with the rounds that are whole; kCancelled where there is none.
Result<std::vector<SpecOutcome>> measure_speculation(
    Engine& engine, const SpecPrompt& prompt, const SpecLoad& load,
    std::span<const SpecSetting> settings, const InterruptWatcher& interrupt,
    const std::function<void(SpecSetting)>& turned);

}  // namespace quire
