// How one request's tokens are chosen and when it ends. Validated once, then immutable; shared by
// the scheduler (limits, stop ids) and the executor (sampling).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/token_scores.h"
#include "core/logits_processor.h"
#include "core/structured_outputs.h"

namespace quire {

// When a beam search ends before its outputs are max_tokens long, once it has beam_width finished
// ones; transformers' early_stopping.
enum class EarlyStopping : std::uint8_t {
  kWhenUnlikely,  // false: the best beam would score no better than the worst of them, ended here
  kAtOnce,        // true
  kNever,  // "never": no continuation of a beam could score better, however long it may become
};

// Names, defaults and rules are vLLM's SamplingParams; core/sampling_table.h has them as data.
// Transforms apply in this order: the caller's own, structured outputs, allowed ids, bad words,
// logit bias, min_tokens, penalties, temperature, min_p, top_k, top_p. Beam search knows none of
// them.
struct SamplingParams {
  std::int64_t n = 1;        // outputs for the prompt; number i draws with seed + i
  double temperature = 1.0;  // in [0, 1000]; below kGreedyTemperature the best token is chosen
  std::int64_t top_k = 0;    // keep the k most probable tokens; 0 and -1: all
  double top_p = 1.0;        // keep the smallest set with at least this probability, (0, 1]
  double min_p = 0.0;        // keep tokens at least this share of the best one's, [0, 1]
  double repetition_penalty = 1.0;  // > 0; of tokens in prompt or output (Keskar et al. 2019)
  double presence_penalty = 0.0;    // in [-2, 2]; subtracted from each token in the output
  double frequency_penalty = 0.0;   // in [-2, 2]; the same, for each time that it stands there
  // Seed of the request's own random stream; the engine fills one in where the user gave none.
  std::optional<std::uint64_t> seed;
  std::int64_t max_tokens = 16;   // output tokens, >= 1
  std::int64_t min_tokens = 0;    // until then no token that ends the output; <= max_tokens
  bool ignore_eos = false;        // end-of-sequence ids do not end the output
  std::vector<std::string> stop;  // strings that end the output; matched on text
  bool include_stop_str_in_output = false;
  std::vector<TokenId> stop_token_ids;  // ids that end the output, besides end of sequence
  std::vector<LogitBias> logit_bias;    // each id once
  // Words that the output must not contain, but where nothing else is left to choose. Users give
  // strings; the engine fills in their token ids, of each word as it is and with a space before.
  std::vector<std::string> bad_words;
  std::vector<std::vector<TokenId>> bad_words_token_ids;
  std::vector<TokenId> allowed_token_ids;  // only these; empty: all
  // Log probabilities of each output (prompt) token and of that many most probable ones.
  std::optional<std::int64_t> logprobs;
  std::optional<std::int64_t> prompt_logprobs;
  bool skip_special_tokens = true;  // special tokens add nothing to the text
  // What the text must be; null: any. Shared, for it may be long and prompts many.
  std::shared_ptr<const StructuredOutputsParams> structured_outputs;
  // Enough of max_tokens is kept to bring what structured_outputs constrains to its end.
  bool ensure_close = false;
  // Report for each output token whether structured_outputs, with min_tokens and
  // allowed_token_ids, allowed no other.
  bool return_forced_tokens = false;
  // Beam search (core/beam_search.h): so many beams; 0: none. It takes no part of temperature,
  // top_k, top_p, min_p and seed, for nothing is drawn, and n of its outputs are handed out, the
  // best first. length_penalty and early_stopping are of beam searches alone.
  std::int64_t beam_width = 0;
  double length_penalty = 1.0;  // a finished output's score: log probability / length^this
  EarlyStopping early_stopping = EarlyStopping::kWhenUnlikely;
  // The caller's own transform; null: none. Log probabilities are of the logits before it.
  std::shared_ptr<LogitsProcessor> logits_processor;

  static constexpr double kGreedyTemperature = 1e-5;
  static constexpr double kMaxTemperature = 1000;  // far beyond it every token is as likely
  static constexpr std::int64_t kMaxN = 128;
  static constexpr std::int64_t kMaxBeamWidth = 128;
  static constexpr double kMaxLengthPenalty = 10;  // and its negative
  static constexpr std::int64_t kMaxStopStrings = 64;
  static constexpr std::int64_t kMaxBadWords = 1024;
  static constexpr std::int64_t kMaxLogitBiases = 1024;
  static constexpr std::int64_t kMaxStopTokenIds = 1024;
  static constexpr float kMaxLogitBias = 100;         // and its negative
  static constexpr std::size_t kMaxStopBytes = 4096;  // of one stop string or bad word

  bool is_beam_search() const { return beam_width > 0; }
  bool greedy() const { return temperature < kGreedyTemperature || is_beam_search(); }
  // Ids that its outputs take, from the request's own on: a beam search has one for each beam.
  std::int64_t num_ids() const { return is_beam_search() ? beam_width : n; }

  // The most probable next tokens of a beam that are enough to choose from; 0: no beam search. Of
  // one beam's at most beam_width are among the next beams, and all that go before these end it.
  std::int64_t num_beam_candidates(std::size_t num_eos_token_ids) const {
    if (!is_beam_search()) return 0;
    const std::size_t num_eos = ignore_eos ? 0 : num_eos_token_ids;
    return beam_width + static_cast<std::int64_t>(stop_token_ids.size() + num_eos);
  }

  // kInvalidArgument naming the field, its value and the rule it breaks. NaN and infinities break
  // every numeric rule. Token ids must be in [0, vocab_size); logprobs at most max_logprobs.
  Status validate(std::int64_t vocab_size, std::int64_t max_logprobs = 20) const;
};

}  // namespace quire
