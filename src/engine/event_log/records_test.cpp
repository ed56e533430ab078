#include "engine/event_log/records.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/event_log/bytes.h"

namespace quire {
namespace {

// Every field but the caller's function, of which a log has what it led to: with one more or less
// in the type this does not compile, and the one that is added here has to be set by the test
// below, and kept.
auto fields_of(const SamplingParams& params) {
  const auto& [n, temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty,
               frequency_penalty, seed, max_tokens, min_tokens, ignore_eos, stop,
               include_stop_str_in_output, stop_token_ids, logit_bias, bad_words,
               bad_words_token_ids, allowed_token_ids, logprobs, prompt_logprobs,
               skip_special_tokens, structured_outputs, ensure_close, return_forced_tokens,
               beam_width, length_penalty, early_stopping, logits_processor] = params;
  (void)logits_processor;
  return std::tie(n, temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty,
                  frequency_penalty, seed, max_tokens, min_tokens, ignore_eos, stop,
                  include_stop_str_in_output, stop_token_ids, logit_bias, bad_words,
                  bad_words_token_ids, allowed_token_ids, logprobs, prompt_logprobs,
                  skip_special_tokens, structured_outputs, ensure_close, return_forced_tokens,
                  beam_width, length_penalty, early_stopping);
}

template <typename Field>
bool same(const Field& one, const Field& other) {
  if constexpr (std::is_same_v<Field, std::vector<LogitBias>>) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                      [](const LogitBias& a, const LogitBias& b) {
                        const auto& [a_token_id, a_bias] = a;
                        const auto& [b_token_id, b_bias] = b;
                        return a_token_id == b_token_id && a_bias == b_bias;
                      });
  } else if constexpr (std::is_same_v<Field, std::shared_ptr<const StructuredOutputsParams>>) {
    return (one == nullptr) == (other == nullptr) && (one == nullptr || *one == *other);
  } else {
    return one == other;
  }
}

// Whether field i is the same in both, for each i.
std::vector<bool> same_fields(const SamplingParams& one, const SamplingParams& other) {
  const auto ones = fields_of(one);
  const auto others = fields_of(other);
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::vector<bool>{same(std::get<kIndex>(ones), std::get<kIndex>(others))...};
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(ones)>>());
}

SamplingParams written_and_read(const SamplingParams& params) {
  std::vector<std::uint8_t> bytes;
  ByteWriter writer(bytes);
  encode_params(params, writer);
  ByteReader reader(bytes);
  SamplingParams read = decode_params(reader);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.size(), 0U);
  return read;
}

TEST(EventLogParams, EveryFieldIsKept) {
  SamplingParams params;
  params.n = 3;
  params.temperature = 0.25;
  params.top_k = 7;
  params.top_p = 0.5;
  params.min_p = 0.125;
  params.repetition_penalty = 1.5;
  params.presence_penalty = -0.5;
  params.frequency_penalty = 0.75;
  params.seed = 0xFFFF'FFFF'FFFF'FFFFULL;
  params.max_tokens = 99;
  params.min_tokens = 4;
  params.ignore_eos = true;
  params.stop = {"a", "bc"};
  params.include_stop_str_in_output = true;
  params.stop_token_ids = {5, 70'000};
  params.logit_bias = {{8, -1.5F}};
  params.bad_words = {"bad"};
  params.bad_words_token_ids = {{1, 2}, {3}};
  params.allowed_token_ids = {5, 6};
  params.logprobs = 0;
  params.prompt_logprobs = 2;
  params.skip_special_tokens = false;
  StructuredOutputsParams structured;
  structured.json = R"({"type": "object"})";
  structured.disable_any_whitespace = true;
  structured.disable_additional_properties = true;
  params.structured_outputs = std::make_shared<const StructuredOutputsParams>(structured);
  params.ensure_close = true;
  params.return_forced_tokens = true;
  SamplingParams beams;  // which go with few of the others
  beams.beam_width = 3;
  beams.length_penalty = -0.5;
  beams.early_stopping = EarlyStopping::kNever;
  const std::vector<bool> unset = same_fields(params, SamplingParams());
  const std::vector<bool> unset_of_beams = same_fields(beams, SamplingParams());
  const std::vector<bool> kept = same_fields(params, written_and_read(params));
  const std::vector<bool> kept_of_beams = same_fields(beams, written_and_read(beams));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_FALSE(unset[i] && unset_of_beams[i]) << "the test leaves field " << i << " as it is";
    EXPECT_TRUE(kept[i] && kept_of_beams[i]) << "field " << i << " is not what was written";
  }
}

}  // namespace
}  // namespace quire
