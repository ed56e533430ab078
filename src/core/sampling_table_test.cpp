#include "core/sampling_table.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

// The address of every member but the last, which is a function and nothing that a table could read
// or write: with one more or less in the type this does not compile.
std::vector<const void*> members_of(const SamplingParams& params) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb,
               function] = params;
  (void)function;
  return {&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l, &m,  &n,
          &o, &p, &q, &r, &s, &t, &u, &v, &w, &x, &y, &z, &aa, &bb};
}

TEST(SamplingTable, EveryMemberHasOneRow) {
  const SamplingParams params;
  std::vector<const void*> members = members_of(params);
  std::vector<const void*> rows;
  for_each_sampling_parameter([&](const auto& row) { rows.push_back(&(params.*row.member)); });
  std::ranges::sort(members);
  std::ranges::sort(rows);
  EXPECT_EQ(rows, members);
}

TEST(SamplingTable, NamesDiffer) {
  std::set<std::string_view> names;
  for_each_sampling_parameter([&](const auto& row) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.name.empty());
  });
}

// What logs of before say by these numbers may not change its meaning.
TEST(SamplingTable, LogBitsAreThoseOfWrittenLogs) {
  std::vector<std::string> names;
  for_each_sampling_parameter_by_log_bit([&](const auto& row) {
    EXPECT_EQ(static_cast<std::size_t>(row.log_bit), names.size()) << row.name;
    names.emplace_back(row.name);
  });
  const std::vector<std::string> expected = {"n",
                                             "temperature",
                                             "top_k",
                                             "top_p",
                                             "min_p",
                                             "repetition_penalty",
                                             "presence_penalty",
                                             "frequency_penalty",
                                             "seed",
                                             "max_tokens",
                                             "min_tokens",
                                             "ignore_eos",
                                             "stop",
                                             "include_stop_str_in_output",
                                             "stop_token_ids",
                                             "logit_bias",
                                             "bad_words",
                                             "bad_words_token_ids",
                                             "allowed_token_ids",
                                             "logprobs",
                                             "prompt_logprobs",
                                             "skip_special_tokens",
                                             "structured_outputs"};
  ASSERT_GE(names.size(), expected.size());
  names.resize(expected.size());  // later ones come behind
  EXPECT_EQ(names, expected);
}

// A row whose own default breaks its rule would refuse every request.
TEST(SamplingTable, DefaultsAreWithinTheRules) {
  EXPECT_TRUE(SamplingParams().validate(/*vocab_size=*/1).ok());
}

}  // namespace
}  // namespace quire
