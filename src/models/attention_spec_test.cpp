// Attention as data: slopes, tensors, and what validate() refuses.
#include "models/attention_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace attention_spec_test {

using testing::ElementsAre;
using testing::HasSubstr;

AttentionSpec usual() {
  AttentionSpec spec;
  spec.num_heads = spec.num_kv_heads = 4;
  spec.head_dim = 8;
  spec.scale = 1;
  return spec;
}

// As the paper and BLOOM have them: of powers of two a geometric sequence that ends in
// 2^-max_bias, then every other one of twice as many.
TEST(AlibiSlopes, AreThoseOfThePaper) {
  EXPECT_THAT(alibi_slopes(1, 8), ElementsAre(0x1p-8F));
  EXPECT_THAT(alibi_slopes(4, 8), ElementsAre(0.25F, 0.0625F, 0x1p-6F, 0x1p-8F));
  EXPECT_THAT(alibi_slopes(4, 4), ElementsAre(0.5F, 0.25F, 0.125F, 0.0625F));
  EXPECT_THAT(alibi_slopes(3, 8), ElementsAre(0.0625F, 0x1p-8F, 0.25F));
  EXPECT_THAT(alibi_slopes(6, 8), ElementsAre(0.25F, 0.0625F, 0x1p-6F, 0x1p-8F, 0.5F, 0.125F));
}

TEST(AttentionSpec, SinksAreATensorOfANumberAHead) {
  AttentionSpec spec = usual();
  const auto sinks_of = [](const AttentionSpec& attention) {
    std::vector<TensorShape> tensors;
    attention.list_tensors(32, tensors);
    std::erase_if(tensors, [](const TensorShape& tensor) {
      return tensor.role != TensorRole::kAttentionSinks;
    });
    return tensors;
  };
  EXPECT_TRUE(sinks_of(spec).empty());
  spec.sinks = true;
  ASSERT_EQ(sinks_of(spec).size(), 1U);
  EXPECT_THAT(sinks_of(spec)[0].sizes, ElementsAre(4));
}

TEST(AttentionSpec, RefusesWhatNoScoreCanBe) {
  EXPECT_TRUE(usual().validate("x").ok());
  AttentionSpec chunked = usual();
  chunked.chunk = -1;
  EXPECT_THAT(chunked.validate("x").message(), HasSubstr("chunks of -1"));
  AttentionSpec capped = usual();
  capped.soft_cap = -50;
  EXPECT_THAT(capped.validate("x").message(), HasSubstr("soft cap of attention scores is -50"));
}

}  // namespace attention_spec_test
}  // namespace quire
