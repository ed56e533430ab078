// The sampling parameters, each declared once: what users call it, which values it accepts, what is
// said of it. The checks of SamplingParams::validate, the fields of requests, flags, the page, the
// event log and the table in docs/server.md all come from here. A new parameter is a member of
// SamplingParams, a row of this table, and its use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/sampling_params.h"

namespace quire {

// What bounds a parameter from above.
enum class SamplingBound : std::uint8_t {
  kFixed,        // SamplingParameter::most
  kMaxTokens,    // the request's max_tokens
  kMaxLogprobs,  // --max-logprobs
  kVocabSize,
};

template <typename T>
struct SamplingParameter {
  using Value = T;

  std::string_view name;
  T SamplingParams::*member;
  std::string_view description;  // for users; empty: the engine fills the member in
  // Its place in a log of the engine's events: never changed, nor used again.
  int log_bit;

  // Numbers: [least, most], or (least, most] with `above`. Lists: at most `most` entries, and at
  // least `least` where one is given.
  double least = -std::numeric_limits<double>::infinity();
  bool above = false;
  double most = std::numeric_limits<double>::infinity();
  SamplingBound bound = SamplingBound::kFixed;
  std::string_view note = {};  // on the values, in errors: "0 and -1: all tokens"

  bool default_varies = false;                  // SamplingParams' is not what every request gets
  std::string_view generation_config_key = {};  // of generation_config.json; empty: none
};

// In the order of vLLM's SamplingParams, which is that of schemas and lists for people.
inline constexpr auto kSamplingTable = [] {
  using P = SamplingParams;
  using Integer = SamplingParameter<std::int64_t>;
  using Number = SamplingParameter<double>;
  using Flag = SamplingParameter<bool>;
  using Strings = SamplingParameter<std::vector<std::string>>;
  using Ids = SamplingParameter<std::vector<TokenId>>;
  using Count = SamplingParameter<std::optional<std::int64_t>>;
  return std::make_tuple(
      Integer{.name = "n",
              .member = &P::n,
              .description = "Outputs per prompt; output i uses seed + i",
              .log_bit = 0,
              .least = 1,
              .most = P::kMaxN},
      Number{.name = "presence_penalty",
             .member = &P::presence_penalty,
             .description = "Subtracted from the logit of each token that the output contains",
             .log_bit = 6,
             .least = -2,
             .most = 2,
             .generation_config_key = "presence_penalty"},
      Number{.name = "frequency_penalty",
             .member = &P::frequency_penalty,
             .description =
                 "Subtracted from a token's logit for each time that the output contains it",
             .log_bit = 7,
             .least = -2,
             .most = 2,
             .generation_config_key = "frequency_penalty"},
      Number{.name = "repetition_penalty",
             .member = &P::repetition_penalty,
             .description =
                 "Divides the logits of tokens in prompt or output; above 1 discourages them",
             .log_bit = 5,
             .least = 0,
             .above = true,
             .generation_config_key = "repetition_penalty"},
      Number{.name = "temperature",
             .member = &P::temperature,
             .description = "0: always the most probable token",
             .log_bit = 1,
             .least = 0,
             .most = P::kMaxTemperature,
             .generation_config_key = "temperature"},
      Number{.name = "top_p",
             .member = &P::top_p,
             .description = "Sample among the most probable tokens that add up to this probability",
             .log_bit = 3,
             .least = 0,
             .above = true,
             .most = 1,
             .generation_config_key = "top_p"},
      Integer{.name = "top_k",
              .member = &P::top_k,
              .description = "Sample among the k most probable tokens; 0 or -1: all",
              .log_bit = 2,
              .least = -1,
              .note = "0 and -1: all tokens",
              .generation_config_key = "top_k"},
      Number{.name = "min_p",
             .member = &P::min_p,
             .description = "Exclude tokens below this share of the highest probability",
             .log_bit = 4,
             .least = 0,
             .most = 1,
             .generation_config_key = "min_p"},
      SamplingParameter<std::optional<std::uint64_t>>{
          .name = "seed",
          .member = &P::seed,
          .description = "Seed of the request's random numbers (default: from --seed)",
          .log_bit = 8,
          .least = 0},
      Strings{.name = "stop",
              .member = &P::stop,
              .description = "Texts that end the output",
              .log_bit = 12,
              .most = P::kMaxStopStrings},
      Ids{.name = "stop_token_ids",
          .member = &P::stop_token_ids,
          .description = "Token ids that end the output",
          .log_bit = 14,
          .most = P::kMaxStopTokenIds},
      Strings{.name = "bad_words",
              .member = &P::bad_words,
              .description = "Words that the output must not contain",
              .log_bit = 16,
              .most = P::kMaxBadWords},
      Flag{.name = "include_stop_str_in_output",
           .member = &P::include_stop_str_in_output,
           .description = "Keep the stop text at the output's end",
           .log_bit = 13},
      Flag{.name = "ignore_eos",
           .member = &P::ignore_eos,
           .description = "Do not end at an end-of-sequence token",
           .log_bit = 11},
      Integer{.name = "max_tokens",
              .member = &P::max_tokens,
              .description = "Maximum number of output tokens (default: up to --max-model-len)",
              .log_bit = 9,
              .least = 1,
              .default_varies = true,
              .generation_config_key = "max_new_tokens"},
      Integer{.name = "min_tokens",
              .member = &P::min_tokens,
              .description = "Minimum number of output tokens; at most max_tokens",
              .log_bit = 10,
              .least = 0,
              .bound = SamplingBound::kMaxTokens},
      Count{.name = "logprobs",
            .member = &P::logprobs,
            .description = "Log probabilities of output tokens, and of that many alternatives "
                           "(see --max-logprobs)",
            .log_bit = 19,
            .least = 0,
            .bound = SamplingBound::kMaxLogprobs},
      Count{.name = "prompt_logprobs",
            .member = &P::prompt_logprobs,
            .description = "Log probabilities of prompt tokens, and of that many alternatives",
            .log_bit = 20,
            .least = 0,
            .bound = SamplingBound::kMaxLogprobs},
      Flag{.name = "skip_special_tokens",
           .member = &P::skip_special_tokens,
           .description = "Leave special tokens out of the text",
           .log_bit = 21},
      SamplingParameter<std::vector<LogitBias>>{
          .name = "logit_bias",
          .member = &P::logit_bias,
          .description = "Added to the logits of tokens: {\"ID\": BIAS, ...}",
          .log_bit = 15,
          .most = P::kMaxLogitBiases},
      Ids{.name = "allowed_token_ids",
          .member = &P::allowed_token_ids,
          .description = "Sample only these tokens",
          .log_bit = 18,
          .least = 1,
          .bound = SamplingBound::kVocabSize},
      SamplingParameter<std::vector<std::vector<TokenId>>>{.name = "bad_words_token_ids",
                                                           .member = &P::bad_words_token_ids,
                                                           .description = "",
                                                           .log_bit = 17},
      SamplingParameter<std::shared_ptr<const StructuredOutputsParams>>{
          .name = "structured_outputs",
          .member = &P::structured_outputs,
          .description =
              "Constraint on the text: {\"json\": SCHEMA}, or regex, choice, grammar, json_object",
          .log_bit = 22},
      Flag{.name = "ensure_close",
           .member = &P::ensure_close,
           .description = "Reserve enough of max_tokens to complete a structured output",
           .log_bit = 23},
      Flag{
          .name = "return_forced_tokens",
          .member = &P::return_forced_tokens,
          .description = "Report for each output token whether structured_outputs allowed no other",
          .log_bit = 27},
      Integer{.name = "beam_width",
              .member = &P::beam_width,
              .description = "Beam search with this many beams instead of sampling; 0: no search",
              .log_bit = 24,
              .least = 0,
              .most = P::kMaxBeamWidth},
      Number{.name = "length_penalty",
             .member = &P::length_penalty,
             .description = "Beam search: an output's score is its log probability divided by its "
                            "length to this power; above 0 prefers longer ones",
             .log_bit = 25,
             .least = -P::kMaxLengthPenalty,
             .most = P::kMaxLengthPenalty},
      SamplingParameter<EarlyStopping>{
          .name = "early_stopping",
          .member = &P::early_stopping,
          .description = "Beam search after beam_width finished outputs: true ends it, false ends "
                         "it if a better one is unlikely, \"never\" only if none is possible",
          .log_bit = 26});
}();

inline constexpr std::size_t kNumSamplingParameters =
    std::tuple_size_v<std::remove_const_t<decltype(kSamplingTable)>>;

// Calls visit(row) for each row.
template <typename Visit>
constexpr void for_each_sampling_parameter(Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, kSamplingTable);
}

// The rows' places in the table, in the order of their bits.
inline constexpr auto kSamplingLogOrder = [] {
  std::array<std::size_t, kNumSamplingParameters> order{};
  std::size_t place = 0;
  for_each_sampling_parameter(
      [&](const auto& row) { order.at(static_cast<std::size_t>(row.log_bit)) = place++; });
  return order;
}();

// The same in the order of their bits, which has no gap.
template <typename Visit>
constexpr void for_each_sampling_parameter_by_log_bit(Visit&& visit) {
  [&]<std::size_t... kBit>(std::index_sequence<kBit...>) {
    (visit(std::get<kSamplingLogOrder[kBit]>(kSamplingTable)), ...);
  }
  (std::make_index_sequence<kNumSamplingParameters>());
}

}  // namespace quire
