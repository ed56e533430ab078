#include "plan/model_footprint.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/capacity.h"

namespace quire {
namespace {

using testing::HasSubstr;

// Of the Llama family; sizes of Llama-3.1-8B unless changed.
DecoderSpec llama_shape(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                        std::int64_t kv_heads, std::int64_t mlp, std::int64_t vocab) {
  DecoderSpec spec;
  spec.hidden_size = hidden;
  spec.vocab_size = vocab;
  spec.max_position_embeddings = 131072;
  LayerSpec layer;
  AttentionSpec attention;
  attention.num_heads = heads;
  attention.num_kv_heads = kv_heads;
  attention.head_dim = hidden / heads;
  layer.mixer = attention;
  layer.feed_forward = GatedMlpSpec{.intermediate_size = mlp};
  spec.layers.assign(static_cast<std::size_t>(layers), layer);
  return spec;
}

DecoderSpec llama_70b() { return llama_shape(80, 8192, 64, 8, 28672, 128256); }

ModelFootprint footprint_of(const DecoderSpec& spec, const char* dtype, int tp,
                            std::int64_t max_len = 4096) {
  const auto footprint =
      model_footprint(spec, {.format = *find_number_format(dtype), .tp = tp, .max_len = max_len});
  EXPECT_TRUE(footprint.ok()) << footprint.status().to_string();
  return footprint.ok() ? *footprint : ModelFootprint();
}

PlanDevice device_of(const char* name) { return *DeviceCatalog::builtin()->find(name); }

// The numbers that the models' authors publish, from the sizes in config.json alone.
TEST(ModelFootprintTest, CountsWhatIsPublished) {
  EXPECT_EQ(count_parameters(llama_shape(32, 4096, 32, 32, 11008, 32000)), 6738415616U);
  EXPECT_EQ(count_parameters(llama_shape(40, 5120, 40, 40, 13824, 32000)), 13015864320U);
  EXPECT_EQ(count_parameters(llama_shape(80, 8192, 64, 8, 28672, 32000)), 68976648192U);
  EXPECT_EQ(count_parameters(llama_shape(32, 4096, 32, 8, 14336, 128256)), 8030261248U);
  EXPECT_EQ(count_parameters(llama_70b()), 70553706496U);
}

TEST(ModelFootprintTest, ASequenceOfA70BIsNotHalfAGigabyte) {
  const ModelFootprint whole = footprint_of(llama_70b(), "bf16", 1);
  EXPECT_DOUBLE_EQ(whole.kv_bytes_per_token(), 80.0 * 8 * 128 * 2 * 2);  // 327,680
  EXPECT_DOUBLE_EQ(whole.kv_bytes(4096, 16), 1.25 * (1U << 30));
  EXPECT_DOUBLE_EQ(whole.kv_bytes(4090, 16), 1.25 * (1U << 30));  // whole blocks
  EXPECT_DOUBLE_EQ(whole.all_weight_bytes, 2.0 * 70553706496.0);
  EXPECT_EQ(whole.weight_bytes, whole.all_weight_bytes);
}

TEST(ModelFootprintTest, SplitsHeadsAndNotNorms) {
  const DecoderSpec spec = llama_70b();
  const ModelFootprint whole = footprint_of(spec, "bf16", 1);
  const ModelFootprint eighth = footprint_of(spec, "bf16", 8);
  const double norms = 2.0 * 8192 * (2 * 80 + 1);
  EXPECT_NEAR(eighth.weight_bytes, (whole.weight_bytes - norms) / 8 + norms, 1);
  EXPECT_DOUBLE_EQ(eighth.kv_bytes_per_token(), whole.kv_bytes_per_token() / 8);
  // Eight KV heads over sixteen devices: each has one whole.
  const ModelFootprint sixteenth = footprint_of(spec, "bf16", 16);
  EXPECT_DOUBLE_EQ(sixteenth.kv_bytes_per_token(), eighth.kv_bytes_per_token());
  EXPECT_GT(sixteenth.weight_bytes, (whole.weight_bytes - norms) / 16 + norms);
}

TEST(ModelFootprintTest, ALayoutThatDoesNotDivideIsRefused) {
  const auto refused = [](const DecoderSpec& spec, int tp) {
    return model_footprint(spec, {.format = *find_number_format("bf16"), .tp = tp}).status();
  };
  EXPECT_THAT(refused(llama_70b(), 3).to_string(),
              HasSubstr("--tp 3 does not divide 64 attention heads; use one of 1, 2, 4, 8"));
  EXPECT_THAT(refused(llama_shape(2, 768, 12, 3, 2048, 1000), 2).message(),
              HasSubstr("3 KV heads"));
  EXPECT_THAT(refused(llama_shape(2, 1024, 16, 16, 2052, 1000), 8).message(),
              HasSubstr("2052 columns of an MLP"));
}

TEST(ModelFootprintTest, QuantizedTypesLeaveTablesAndNormsAlone) {
  const ModelFootprint four = footprint_of(llama_70b(), "int4", 1);
  const double tables = 2.0 * 128256 * 8192;
  const double norms = 8192.0 * 161;
  const double matrices = 70553706496.0 - tables - norms;
  EXPECT_NEAR(four.all_weight_bytes, 2 * (tables + norms) + matrices * (4 + 20.0 / 128) / 8, 1);
}

TEST(ModelFootprintTest, AWindowKeepsItsBlocks) {
  DecoderSpec spec = llama_shape(4, 1024, 8, 2, 2048, 1000);
  spec.layers[1].attention().window = 512;
  spec.layers[3].attention().window = 512;
  const ModelFootprint whole = footprint_of(spec, "bf16", 1, 8192);
  ASSERT_EQ(whole.kv.size(), 2U);
  const double layer = 2 * 2 * 128 * 2;
  EXPECT_DOUBLE_EQ(whole.kv_bytes(8192, 16), 2 * layer * 8192 + 2 * layer * 528);
  EXPECT_EQ(footprint_of(spec, "bf16", 1, 512).kv.size(), 1U);  // a window that nobody leaves
}

TEST(ModelFootprintTest, AStateIsThereTwiceASequenceWhateverItsTokens) {
  DecoderSpec spec = llama_shape(4, 1024, 8, 2, 2048, 1000);
  ShortConvSpec conv;
  conv.taps = 3;
  for (const std::size_t layer : {0U, 2U, 3U}) spec.layers[layer].mixer = conv;
  const ModelFootprint whole = footprint_of(spec, "bf16", 1, 8192);
  ASSERT_EQ(whole.kv.size(), 2U);
  EXPECT_EQ(whole.kv[1].num_layers, 3);
  EXPECT_DOUBLE_EQ(whole.kv[1].state_bytes, 3.0 * 2 * 1024 * 4);
  const double layer = 2 * 2 * 128 * 2;
  EXPECT_DOUBLE_EQ(whole.kv_bytes_per_token(), layer);
  EXPECT_DOUBLE_EQ(whole.kv_bytes(8192, 16), layer * 8192 + 2 * whole.kv[1].state_bytes);
  EXPECT_EQ(model_footprint(spec, {.format = {}, .tp = 2, .max_len = 64}).status().code(),
            StatusCode::kUnimplemented);
}

TEST(CostModelTest, DecodingReadsAllAndPromptsMultiply) {
  const DecoderSpec spec = llama_70b();
  const PlanDevice device = device_of("h100");
  const ModelFootprint quarter = footprint_of(spec, "bf16", 4);
  const CostModel cost(quarter, device, Arithmetic::kBF16, 4);
  const StepTime one = cost.decode(1, 1000);
  EXPECT_EQ(one.bound, Bound::kMemory);
  // All but the embeddings, and the keys and values of 1,001 tokens.
  const double read =
      quarter.weight_bytes - 2.0 * 128256 * 8192 / 4 + 1001 * quarter.kv_bytes_per_token();
  EXPECT_NEAR(one.bytes, read, 1);
  EXPECT_NEAR(one.memory_s, read / 3.35e12, 1e-9);
  EXPECT_GT(one.expected_s, one.ideal_s);
  const StepTime prompt = cost.prefill(2048);
  EXPECT_EQ(prompt.bound, Bound::kCompute);
  EXPECT_GT(prompt.intensity(), cost.ridge());
  // Two FLOP a weight and row, and attention's triangle.
  const double weights = 70553706496.0 - 2.0 * 128256 * 8192 - 8192.0 * 161;
  const double attention = 80.0 * 4 * 8192 * (2048.0 * 2049 / 2);
  EXPECT_NEAR(prompt.flops * 4, 2 * weights * 2048 + attention + 2.0 * 128256 * 8192, 1e6);
}

TEST(CostModelTest, ChunksAddUpToThePrompt) {
  DecoderSpec spec = llama_shape(4, 1024, 8, 2, 2048, 1000);
  spec.layers[1].attention().window = 300;
  const CostModel cost(footprint_of(spec, "bf16", 1), device_of("l4"), Arithmetic::kBF16, 1);
  RooflineWork whole;
  cost.add(whole, 0, 1000, 1);
  RooflineWork parts;
  for (int first = 0; first < 1000; first += 125) cost.add(parts, first, 125, first == 875 ? 1 : 0);
  EXPECT_NEAR(whole.attention_flops, parts.attention_flops, 1e-3);
  EXPECT_DOUBLE_EQ(whole.rows, parts.rows);
  EXPECT_LT(whole.kv_bytes, parts.kv_bytes);  // what is read again
}

ModelFootprint sum_of(const std::vector<ModelFootprint>& stages) {
  ModelFootprint sum;
  for (const ModelFootprint& stage : stages) {
    sum.weight_bytes += stage.weight_bytes;
    sum.dense_bytes += stage.dense_bytes;
    sum.flops_per_row += stage.flops_per_row;
    sum.num_layers += stage.num_layers;
    sum.kv.push_back({.bytes_per_token = stage.kv_bytes_per_token()});
  }
  return sum;
}

TEST(PipelineCostTest, StagesHaveTheWholeModelOnce) {
  const DecoderSpec spec = llama_70b();
  const FootprintOptions options = {.format = *find_number_format("bf16"), .max_len = 4096};
  const ModelFootprint whole = footprint_of(spec, "bf16", 1);
  const auto stages = stage_footprints(spec, options, 3);
  ASSERT_TRUE(stages.ok()) << stages.status().to_string();
  const ModelFootprint sum = sum_of(*stages);
  EXPECT_DOUBLE_EQ(sum.weight_bytes, whole.weight_bytes);
  EXPECT_DOUBLE_EQ(sum.dense_bytes, whole.dense_bytes);
  EXPECT_DOUBLE_EQ(sum.flops_per_row, whole.flops_per_row);
  EXPECT_DOUBLE_EQ(sum.kv_bytes_per_token(), whole.kv_bytes_per_token());
  // 80 layers: the one with the output matrix has no layer more.
  EXPECT_EQ((*stages)[0].num_layers, 27);
  EXPECT_EQ((*stages)[1].num_layers, 27);
  EXPECT_EQ((*stages)[2].num_layers, 26);
  EXPECT_EQ((*stages)[1].output_bytes, 0);
  EXPECT_EQ(stage_layers(10, 4)[1].count(), 3);  // 2, 3, 3, 2
  EXPECT_EQ(stage_layers(10, 4)[3].count(), 2);
}

TEST(PipelineCostTest, ATiedMatrixIsInTheFirstAndTheLastStage) {
  DecoderSpec spec = llama_shape(4, 1024, 8, 2, 2048, 1000);
  spec.tie_word_embeddings = true;
  const FootprintOptions options = {.format = *find_number_format("bf16"), .max_len = 4096};
  const ModelFootprint whole = footprint_of(spec, "bf16", 1);
  const auto stages = stage_footprints(spec, options, 2);
  ASSERT_TRUE(stages.ok()) << stages.status().to_string();
  const double matrix = 2.0 * 1000 * 1024;
  EXPECT_DOUBLE_EQ(sum_of(*stages).weight_bytes, whole.weight_bytes + matrix);
  EXPECT_DOUBLE_EQ(sum_of(*stages).dense_bytes, whole.dense_bytes);  // the first reads rows of it
  EXPECT_EQ((*stages)[0].output_bytes, 0);
  EXPECT_DOUBLE_EQ((*stages)[1].output_bytes, matrix);
}

TEST(PipelineCostTest, OneRequestIsNotFasterAndManyAre) {
  const DecoderSpec spec = llama_70b();
  const PlanDevice device = device_of("h100");
  const FootprintOptions options = {.format = *find_number_format("fp8"), .max_len = 4096};
  const auto one = stage_footprints(spec, options, 1);
  const auto four = stage_footprints(spec, options, 4);
  ASSERT_TRUE(one.ok() && four.ok());
  const CostModel plain(one->front(), device, Arithmetic::kF8, 1);
  const PipelineCost whole(*one, device, Arithmetic::kF8, 1);
  const PipelineCost cost(*four, device, Arithmetic::kF8, 1);
  // Without stages it is the cost model's own time.
  EXPECT_DOUBLE_EQ(whole.prefill(1000).expected_s, plain.prefill(1000).expected_s);
  EXPECT_DOUBLE_EQ(whole.decode(8, 1000).expected_s, plain.decode(8, 1000).expected_s);
  // Three hand-overs of hidden states in 16 bits over half of a link, and three more overheads.
  const StepTime prompt = cost.prefill(1000);
  const double hop = 1000.0 * 8192 * 2 / 450e9;
  EXPECT_NEAR(prompt.ideal_s, plain.prefill(1000).ideal_s + 3 * hop, 1e-9);
  EXPECT_NEAR(prompt.expected_s, plain.prefill(1000).expected_s + 3 * (hop / 0.7 + 10e-6 + 0.5e-3),
              1e-9);
  EXPECT_LT(prompt.stage_s, prompt.expected_s / 3);
  EXPECT_GT(cost.decode(1, 1000).expected_s, plain.decode(1, 1000).expected_s);
  // Of many sequences a token takes the slowest stage's time for each of four parts of them.
  const StepTime many = cost.decode(256, 1000);
  EXPECT_GE(many.expected_s, 4 * many.stage_s);
  EXPECT_GT(output_rate(cost, 256, 1000, 200), 1.8 * output_rate(whole, 256, 1000, 200));
  EXPECT_LT(output_rate(cost, 1, 1000, 200), output_rate(whole, 1, 1000, 200) * 1.05);
  // Where the links end, the network is slower.
  const PipelineCost far(*four, device_of("xeon-8480"), Arithmetic::kF8, 1, 1e9);
  EXPECT_GT(far.prefill(1000).link_s, 3 * 1000.0 * 8192 * 2 / 1.0001e9);
}

TEST(PipelineCostTest, SaysWhatCannotBeAStage) {
  DecoderSpec spec = llama_shape(4, 1024, 8, 2, 2048, 1000);
  const FootprintOptions options = {.format = *find_number_format("bf16"), .max_len = 4096};
  EXPECT_THAT(stage_footprints(spec, options, 5).status().message(), HasSubstr("has 4 layers"));
  spec.layers[2].attention().kv_layer = 0;
  EXPECT_THAT(stage_footprints(spec, options, 2).status().message(),
              HasSubstr("layer 2 reads the keys and values of layer 0"));
}

TEST(CapacityTest, FindsTheLoadThatACopyCarries) {
  const ModelFootprint footprint =
      footprint_of(llama_shape(32, 4096, 32, 8, 14336, 128256), "bf16", 1);
  const PlanDevice device = device_of("h100");
  const PipelineCost cost({footprint}, device, Arithmetic::kBF16, 1);
  const LoadTarget target = {
      .qps = 50, .input_len = 2000, .output_len = 300, .ttft_s = 1.0, .tpot_s = 0.05};
  const auto plan = plan_load(cost, target, 200);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->replicas, static_cast<int>(std::ceil(50 / plan->max_qps)));
  EXPECT_LE(plan->point.ttft_s, 1.0);
  EXPECT_LE(plan->point.tpot_s, 0.05);
  // Little's law, and a little more load is too much.
  EXPECT_NEAR(plan->point.batch, plan->point.qps * 300 * plan->point.tpot_s, 1e-3);
  const auto beyond = operating_point(cost, target, plan->max_qps * 1.01, 200);
  EXPECT_TRUE(!beyond || beyond->ttft_s > 1.0 || beyond->tpot_s > 0.05);
  LoadTarget hopeless = target;
  hopeless.tpot_s = 1e-4;
  EXPECT_THAT(plan_load(cost, hopeless, 200).status().message(),
              HasSubstr("one sequence alone takes"));
}

TEST(CapacityTest, SaysHowManySequencesFit) {
  const ModelFootprint quarter = footprint_of(llama_70b(), "fp8", 4, 8192);
  const CapacityOptions options = {.max_len = 8192};
  const DeviceFit fit = fit_device(quarter, device_of("h100"), options);
  EXPECT_DOUBLE_EQ(fit.budget, 72e9);
  EXPECT_EQ(fit.sequences, static_cast<std::int64_t>((72e9 - fit.weights - fit.activations) /
                                                     (8192.0 * 327680 / 4)));
  EXPECT_FALSE(fit_device(footprint_of(llama_70b(), "bf16", 1), device_of("h100"), options).fits());
}

}  // namespace
}  // namespace quire
