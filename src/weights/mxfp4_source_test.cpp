// Experts as gpt-oss is published: joined exactly, and refused where their parts do not fit.
#include "weights/mxfp4_source.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/encoding.h"
#include "tensor/thread_pool.h"
#include "weights/decoded_values.h"
#include "weights/fake_source.h"

namespace quire {
namespace mxfp4_source_test {

using ::testing::HasSubstr;

constexpr std::int64_t kExperts = 2;
constexpr std::int64_t kOutputs = 3;
constexpr std::int64_t kBlocks = 2;

// OCP Microscaling Formats 1.0, table of FP4 (E2M1).
constexpr float kValues[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

struct Published {
  std::vector<std::uint8_t> blocks = std::vector<std::uint8_t>(kExperts * kOutputs * kBlocks * 16);
  std::vector<std::uint8_t> scales = std::vector<std::uint8_t>(kExperts * kOutputs * kBlocks);

  Published() {
    std::mt19937 random(4);
    for (auto& byte : blocks) byte = static_cast<std::uint8_t>(random());
    for (auto& scale : scales) scale = static_cast<std::uint8_t>(110 + random() % 30);
  }

  float weight(std::int64_t row, std::int64_t col) const {
    const std::uint8_t pair = blocks[static_cast<std::size_t>(row * kBlocks * 16 + col / 2)];
    const unsigned int code = col % 2 == 0 ? pair & 15U : pair >> 4U;
    const float value = (code & 8U) != 0 ? -kValues[code & 7U] : kValues[code & 7U];
    return std::ldexp(value, scales[static_cast<std::size_t>(row * kBlocks + col / 32)] - 127);
  }

  std::unique_ptr<FakeSource> source() const {
    auto source = std::make_unique<FakeSource>();
    source->add("experts.down_proj_bias", Encoding::kF32, {2}, std::vector<float>{1, 2});
    source->add("experts.down_proj_blocks", Encoding::kU8, {kExperts, kOutputs, kBlocks, 16},
                blocks);
    source->add("experts.down_proj_scales", Encoding::kU8, {kExperts, kOutputs, kBlocks}, scales);
    return source;
  }
};

TEST(Mxfp4Source, JoinsBlocksAndScales) {
  const Published published;
  const auto source = open_mxfp4(published.source());
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  ASSERT_EQ((*source)->tensors().size(), 2U);
  const TensorInfo* const tensor = (*source)->find("experts.down_proj");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{kExperts, kOutputs, kBlocks * 32}));
  EXPECT_EQ(tensor->bytes(), published.blocks.size() + published.scales.size());
  EXPECT_EQ(tensor->encoding, Encoding::kMXFP4);
  const std::vector<float> values = decoded_values(**source, *tensor);
  ASSERT_EQ(std::ssize(values), kExperts * kOutputs * kBlocks * 32);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const std::int64_t row = i / (kBlocks * 32);
    const std::int64_t col = i % (kBlocks * 32);
    ASSERT_EQ(values[static_cast<std::size_t>(i)], published.weight(row, col))
        << row << ", " << col;
  }
}

TEST(Mxfp4Source, RefusesScalesThatFloatsDoNotHold) {
  Published published;
  published.scales[5] = 255;
  const auto source = open_mxfp4(published.source());
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  ThreadPool pool(1);
  const auto rows = (*source)->rows(*(*source)->find("experts.down_proj"), pool);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), StatusCode::kBadModel);
  EXPECT_THAT(rows.status().to_string(), HasSubstr("experts.down_proj_scales: scales above 252"));
}

TEST(Mxfp4Source, RefusesPartsThatDoNotFit) {
  const Published published;
  const auto refused = [](std::unique_ptr<FakeSource> source, const std::string& what) {
    const auto joined = open_mxfp4(std::move(source));
    ASSERT_FALSE(joined.ok()) << what;
    EXPECT_EQ(joined.status().code(), StatusCode::kBadModel);
    EXPECT_THAT(joined.status().to_string(), HasSubstr(what));
  };
  auto source = published.source();
  source->remove("experts.down_proj_scales");
  refused(std::move(source), "there is no experts.down_proj_scales");
  source = published.source();
  source->remove("experts.down_proj_blocks");
  refused(std::move(source), "belongs to no tensor of mxfp4");
  source = published.source();
  source->at("experts.down_proj_scales").shape = {kExperts, kOutputs * kBlocks};
  refused(std::move(source), "experts.down_proj_scales");
  source = published.source();
  source->at("experts.down_proj_blocks").shape = {kExperts, kOutputs, kBlocks * 16};
  refused(std::move(source), "experts.down_proj_blocks");
  source = published.source();
  source->add("experts.down_proj", Encoding::kF32, {1}, std::vector<float>{1});
  refused(std::move(source), "both quantized and not");
}

}  // namespace mxfp4_source_test
}  // namespace quire
