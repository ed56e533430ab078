// The distribution of each transform, and of their compositions, against transformers' logits
// processors (tests/data/sampling, made by scripts/goldens/sampling.py), and against plain double
// precision on larger vocabularies.
#include <algorithm>

#include <boost/json/value_to.hpp>
#include <gtest/gtest.h>

#include "base/json.h"
#include "exec/sampling_test_support.h"

namespace quire {
namespace {

std::vector<TokenId> ids_of(const json::value& value) {
  return json::value_to<std::vector<TokenId>>(value);
}

SamplingParams params_of(const json::object& object) {
  SamplingParams params;
  params.max_tokens = 100;
  for (const auto& [key, value] : object) {
    if (key == "temperature")
      params.temperature = value.to_number<double>();
    else if (key == "top_k")
      params.top_k = value.to_number<std::int64_t>();
    else if (key == "top_p")
      params.top_p = value.to_number<double>();
    else if (key == "min_p")
      params.min_p = value.to_number<double>();
    else if (key == "repetition_penalty")
      params.repetition_penalty = value.to_number<double>();
    else if (key == "presence_penalty")
      params.presence_penalty = value.to_number<double>();
    else if (key == "frequency_penalty")
      params.frequency_penalty = value.to_number<double>();
    else if (key == "min_tokens")
      params.min_tokens = value.to_number<std::int64_t>();
    else if (key == "ignore_eos")
      params.ignore_eos = value.as_bool();
    else if (key == "stop_token_ids")
      params.stop_token_ids = ids_of(value);
    else if (key == "allowed_token_ids")
      params.allowed_token_ids = ids_of(value);
    else if (key == "bad_words_token_ids") {
      params.bad_words_token_ids = json::value_to<std::vector<std::vector<TokenId>>>(value);
    } else if (key == "logit_bias") {
      for (const json::value& pair : value.as_array()) {
        params.logit_bias.push_back(
            {pair.at(0).to_number<TokenId>(), pair.at(1).to_number<float>()});
      }
    } else {
      ADD_FAILURE() << "unknown parameter " << std::string(key);
    }
  }
  return params;
}

TEST(SamplingGolden, EqualsTransformers) {
  auto file = read_json_file(QUIRE_SOURCE_DIR "/tests/data/sampling/cases.json", 1 << 20);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const json::object& goldens = file->as_object();
  const auto rows = json::value_to<std::vector<std::vector<float>>>(goldens.at("logits"));
  ASSERT_GE(goldens.at("cases").as_array().size(), 80U);
  for (const json::value& golden : goldens.at("cases").as_array()) {
    const auto row = golden.at("logits").to_number<std::size_t>();
    SCOPED_TRACE(json::serialize(golden.at("name")) + ", row " + std::to_string(row));
    const SamplingCase c = {.params = params_of(golden.at("params").as_object()),
                            .prompt = ids_of(goldens.at("prompt_token_ids")),
                            .output = ids_of(goldens.at("output_token_ids")),
                            .eos_token_ids = ids_of(goldens.at("eos_token_ids"))};
    const auto kept = json::value_to<std::vector<std::size_t>>(golden.at("kept"));
    const auto expected = json::value_to<std::vector<double>>(golden.at("probabilities"));
    const std::vector<double> got = measured_distribution(c, rows.at(row));
    std::vector<double> wanted(got.size());
    for (std::size_t i = 0; i < kept.size(); ++i) wanted[kept[i]] = expected[i];
    for (std::size_t t = 0; t < got.size(); ++t) {
      EXPECT_NEAR(got[t], wanted[t], 1e-6) << "token " << t;
      // Bisection resolves 1e-12.
      const bool clear = wanted[t] > 1e-11 || wanted[t] == 0;
      EXPECT_TRUE(!clear || (got[t] > 0) == (wanted[t] > 0)) << "token " << t;
    }
  }
}

// What random parameters make of a larger vocabulary with repeated logits.
TEST(SamplingGolden, EqualsDoublePrecisionUnderRandomParameters) {
  std::mt19937 generator(7);
  const auto uniform = [&] { return static_cast<double>(generator()) * 0x1.0p-32; };
  for (std::uint32_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    std::vector<float> logits = random_logits(300, 1 + 4 * uniform(), i);
    for (float& logit : logits) logit = std::round(logit * 8) / 8;  // many ties
    SamplingCase c;
    c.params.temperature = 0.3 + 2 * uniform();
    if (generator() % 2 == 0) c.params.top_k = 1 + static_cast<std::int64_t>(generator() % 60);
    if (generator() % 2 == 0) c.params.top_p = 0.05 + 0.94 * uniform();
    if (generator() % 3 == 0) c.params.min_p = 0.2 * uniform();
    const std::vector<double> got = measured_distribution(c, logits);
    const std::vector<double> wanted = reference::distribution(c, logits);
    for (std::size_t t = 0; t < got.size(); ++t) ASSERT_NEAR(got[t], wanted[t], 2e-6) << t;
  }
}

// At the size of real vocabularies: each drawn token is the one whose interval of the cumulative
// distribution holds the uniform number.
TEST(SamplingGolden, DrawsByTheCumulativeDistributionOfRealVocabularies) {
  for (const std::size_t vocab_size : {49152U, 262144U}) {
    const std::vector<float> logits = random_logits(vocab_size, 3, 11);
    TokenSelection selection(static_cast<std::int64_t>(vocab_size));
    for (const int kind : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(kind);
      SamplingCase c;
      c.params.temperature = 0.8;
      if (kind == 1 || kind == 3) c.params.top_k = 50;
      if (kind == 2 || kind == 3) c.params.top_p = 0.9;
      if (kind == 4) c.params.min_p = 0.05;
      const std::vector<double> wanted = reference::distribution(c, logits);
      std::vector<double> ends(vocab_size);
      std::partial_sum(wanted.begin(), wanted.end(), ends.begin());
      for (int i = 0; i < 25; ++i) {
        const double u = (i + 0.5) / 25;
        const auto token = static_cast<std::size_t>(selection.draw(
            sampling_kernels(), draw_of(c.params, u), logits, std::ranges::max(logits)));
        EXPECT_GT(wanted[token], 0);
        EXPECT_LT(ends[token] - wanted[token], u + 1e-5);
        EXPECT_GT(ends[token], u - 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace quire
