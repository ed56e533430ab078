#include "core/sampling_params.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr std::int64_t kVocabSize = 100;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  std::string name;
  std::function<void(SamplingParams&)> change;
  std::string message;  // empty: valid
};

class SamplingParamsRules : public testing::TestWithParam<Case> {};

TEST_P(SamplingParamsRules, Hold) {
  SamplingParams params;
  GetParam().change(params);
  const Status status = params.validate(kVocabSize);
  EXPECT_EQ(status.message(), GetParam().message);
  EXPECT_EQ(status.code(),
            GetParam().message.empty() ? StatusCode::kOk : StatusCode::kInvalidArgument);
}

using Params = SamplingParams;
INSTANTIATE_TEST_SUITE_P(
    Each, SamplingParamsRules,
    testing::Values(Case{"defaults", [](Params&) {}, ""},
                    Case{"temperature_zero", [](Params& p) { p.temperature = 0; }, ""},
                    Case{"temperature_negative", [](Params& p) { p.temperature = -0.5; },
                         "temperature: -0.5 is not a number in [0, 1000]"},
                    Case{"temperature_nan", [](Params& p) { p.temperature = kNan; },
                         "temperature: nan is not a number in [0, 1000]"},
                    Case{"temperature_infinite", [](Params& p) { p.temperature = kInfinity; },
                         "temperature: inf is not a number in [0, 1000]"},
                    Case{"top_k_all", [](Params& p) { p.top_k = -1; }, ""},
                    Case{"top_k_beyond_vocabulary", [](Params& p) { p.top_k = 1 << 20; }, ""},
                    Case{"top_k_negative", [](Params& p) { p.top_k = -2; },
                         "top_k: -2 is not an integer >= -1 (0 and -1: all tokens)"},
                    Case{"top_p_zero", [](Params& p) { p.top_p = 0; },
                         "top_p: 0 is not a number in (0, 1]"},
                    Case{"top_p_above_one", [](Params& p) { p.top_p = 1.5; },
                         "top_p: 1.5 is not a number in (0, 1]"},
                    Case{"top_p_nan", [](Params& p) { p.top_p = kNan; },
                         "top_p: nan is not a number in (0, 1]"},
                    Case{"top_p_infinite", [](Params& p) { p.top_p = kInfinity; },
                         "top_p: inf is not a number in (0, 1]"},
                    Case{"max_tokens_zero", [](Params& p) { p.max_tokens = 0; },
                         "max_tokens: 0 is not an integer >= 1"},
                    Case{"stop_most", [](Params& p) { p.stop.assign(64, "x"); }, ""},
                    Case{"stop_too_many", [](Params& p) { p.stop.assign(65, "x"); },
                         "stop: a list of 65 strings is not a list of at most 64"},
                    Case{"stop_empty_string",
                         [](Params& p) {
                           p.stop = {"a", ""};
                         },
                         "stop[1]: a string of 0 bytes is not a string of 1 to 4096 bytes"},
                    Case{"stop_too_long", [](Params& p) { p.stop = {std::string(4097, 'x')}; },
                         "stop[0]: a string of 4097 bytes is not a string of 1 to 4096 bytes"},
                    Case{"stop_id_last",
                         [](Params& p) {
                           p.stop_token_ids = {0, 99};
                         },
                         ""},
                    Case{"stop_id_beyond_vocabulary",
                         [](Params& p) {
                           p.stop_token_ids = {5, 100};
                         },
                         "stop_token_ids[1]: 100 is not a token id in [0, 100)"},
                    Case{"stop_id_negative", [](Params& p) { p.stop_token_ids = {-1}; },
                         "stop_token_ids[0]: -1 is not a token id in [0, 100)"},
                    Case{"stop_ids_too_many", [](Params& p) { p.stop_token_ids.assign(1025, 1); },
                         "stop_token_ids: a list of 1025 ids is not a list of at most 1024"}),
    [](const testing::TestParamInfo<Case>& case_info) { return case_info.param.name; });

TEST(SamplingParams, GreedyBelowTheThreshold) {
  SamplingParams params;
  EXPECT_FALSE(params.greedy());
  params.temperature = 1e-6;
  EXPECT_TRUE(params.greedy());
}

}  // namespace
}  // namespace quire
