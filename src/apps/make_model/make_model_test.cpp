#include "apps/make_model/make_model.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/make_model/synthetic_vocab.h"
#include "kernels/cpu_device.h"
#include "kernels/op_table.h"
#include "load/model_bundle.h"
#include "models/decoder_model.h"
#include "quant/encoding.h"
#include "weights/gguf.h"
#include "weights/safetensors.h"
#include "weights/test_support.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempFolder;

ModelShape tiny_shape() {
  return {.name = "tiny",
          .num_layers = 2,
          .hidden_size = 256,
          .intermediate_size = 512,
          .num_heads = 4,
          .num_kv_heads = 2,
          .vocab_size = 700,
          .max_position_embeddings = 128};
}

MakeModelArgs gguf_args(const fs::path& output, std::string encoding) {
  return {.shape = tiny_shape(),
          .encoding = std::move(encoding),
          .format = ModelFormat::kGguf,
          .output = output};
}

Status make(const MakeModelArgs& args, int threads = 1) {
  ThreadPool pool(threads);
  return make_model(args, pool, [](std::uint64_t, std::uint64_t) { return true; });
}

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> decoded(const TensorInfo& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::vector<float> out(static_cast<std::size_t>(count));
  decode_row(tensor.encoding, tensor.data.data(), count, out.data());
  return out;
}

TEST(MakeModel, GgufOpensWithEveryTensorAndKey) {
  const TempFolder folder;
  for (const char* encoding : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k_m"}) {
    const fs::path path = folder.path() / (std::string(encoding) + ".gguf");
    ASSERT_EQ(make(gguf_args(path, encoding)).to_string(), "");
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ((*file)->tensors().size(), 2U * 9 + 3) << encoding;
    EXPECT_EQ((*file)->get_int("llama.block_count").value(), 2);
    EXPECT_EQ((*file)->find_strings("tokenizer.ggml.tokens").value()->size(), 700U);
    EXPECT_EQ((*file)->find("output_norm.weight")->encoding, Encoding::kF32);
  }
}

TEST(MakeModel, OneSeedIsOneModelInEveryFormat) {
  const TempFolder folder;
  const fs::path gguf = folder.path() / "model.gguf";
  MakeModelArgs hugging_face{
      .shape = tiny_shape(), .encoding = "f32", .output = folder.path() / "hf"};
  ASSERT_EQ(make(gguf_args(gguf, "f32")).to_string(), "");
  ASSERT_EQ(make(hugging_face).to_string(), "");
  const auto ours = GgufFile::open(gguf);
  const auto theirs = open_safetensors(folder.path() / "hf");
  ASSERT_TRUE(ours.ok() && theirs.ok());
  EXPECT_EQ(decoded(*(*ours)->find("token_embd.weight")),
            decoded(*(*theirs)->find("model.embed_tokens.weight")));
  EXPECT_EQ(decoded(*(*ours)->find("blk.1.ffn_down.weight")),
            decoded(*(*theirs)->find("model.layers.1.mlp.down_proj.weight")));
  // Rows i and i + 32 of a head of 64 lie side by side in GGUF.
  const auto interleaved = decoded(*(*ours)->find("blk.1.attn_q.weight"));
  const auto halves = decoded(*(*theirs)->find("model.layers.1.self_attn.q_proj.weight"));
  for (std::size_t row = 0; row < 256; ++row) {
    const std::size_t source = row / 64 * 64 + row % 64 % 2 * 32 + row % 64 / 2;
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(interleaved[row * 256 + i], halves[source * 256 + i]) << row;
    }
  }
}

ModelShape tiny_mixture() {
  ModelShape shape = tiny_shape();
  shape.head_size = 96;
  shape.experts = {.num_experts = 5, .experts_per_token = 2, .intermediate_size = 128};
  return shape;
}

ModelShape tiny_latent() {
  ModelShape shape = tiny_shape();
  shape.num_kv_heads = 4;
  shape.latent = {.latent_dims = 96, .rope_dims = 32, .key_dims = 64, .value_dims = 128};
  return shape;
}

// One model in both formats, decoded to floats.
class BothFormats {
 public:
  explicit BothFormats(const ModelShape& shape) {
    for (const ModelFormat format : {ModelFormat::kHuggingFace, ModelFormat::kGguf}) {
      const fs::path path =
          folder_.path() / (format == ModelFormat::kGguf ? "model.gguf" : "model");
      EXPECT_EQ(
          make({.shape = shape, .encoding = "f32", .format = format, .output = path}).to_string(),
          "");
    }
    ours_ = GgufFile::open(folder_.path() / "model.gguf").value();
    theirs_ = open_safetensors(folder_.path() / "model").value();
  }

  std::vector<float> gguf(const std::string& name) const { return decoded(*ours_->find(name)); }
  std::vector<float> hugging_face(const std::string& name) const {
    return decoded(*theirs_->find("model.layers.1." + name));
  }

  // Every tensor that the family asks for is there, and no other.
  void expect_loaded() const {
    CpuDevice device(1, op_table(choose_level().value()));
    for (const char* name : {"model", "model.gguf"}) {
      const auto bundle = open_model((folder_.path() / name).string(), "");
      ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
      const auto model = Model::load(bundle->spec, *bundle->weights, 128, device, nullptr);
      EXPECT_TRUE(model.ok()) << name << ": " << model.status().to_string();
    }
  }

 private:
  TempFolder folder_;
  std::unique_ptr<GgufFile> ours_;
  std::unique_ptr<WeightSource> theirs_;
};

TEST(MakeModel, ExpertsAreOneTensorInGgufAndOneEachInTheOther) {
  const BothFormats made(tiny_mixture());
  made.expect_loaded();
  std::vector<float> all;
  for (int expert = 0; expert < 5; ++expert) {
    const auto one =
        made.hugging_face("mlp.experts." + std::to_string(expert) + ".down_proj.weight");
    all.insert(all.end(), one.begin(), one.end());
  }
  EXPECT_EQ(made.gguf("blk.1.ffn_down_exps.weight"), all);
  EXPECT_EQ(made.gguf("blk.1.ffn_gate_inp.weight"), made.hugging_face("mlp.gate.weight"));
  EXPECT_EQ(made.gguf("blk.1.attn_q.weight"), made.hugging_face("self_attn.q_proj.weight"));
}

TEST(MakeModel, LatentsAreReadByTwoMatricesInGguf) {
  const BothFormats made(tiny_latent());
  made.expect_loaded();
  const auto both = made.hugging_face("self_attn.kv_b_proj.weight");  // [4][64 + 128][96]
  const auto keys = made.gguf("blk.1.attn_k_b.weight");               // [4][96][64]
  const auto values = made.gguf("blk.1.attn_v_b.weight");             // [4][128][96]
  ASSERT_EQ(both.size(), keys.size() + values.size());
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t i = 0; i < 96; ++i) {
      for (std::size_t k = 0; k < 64; ++k) {
        ASSERT_EQ(keys[(head * 96 + i) * 64 + k], both[(head * 192 + k) * 96 + i]);
      }
      for (std::size_t v = 0; v < 128; ++v) {
        ASSERT_EQ(values[(head * 128 + v) * 96 + i], both[(head * 192 + 64 + v) * 96 + i]);
      }
    }
  }
}

TEST(MakeModel, BytesDependOnTheSeedAndNotOnThreads) {
  const TempFolder folder;
  MakeModelArgs args = gguf_args(folder.path() / "a.gguf", "q4_0");
  ASSERT_TRUE(make(args).ok());
  args.output = folder.path() / "b.gguf";
  ASSERT_TRUE(make(args, 3).ok());
  EXPECT_EQ(bytes_of_file(folder.path() / "a.gguf"), bytes_of_file(folder.path() / "b.gguf"));
  args.output = folder.path() / "c.gguf";
  args.seed = 1;
  ASSERT_TRUE(make(args).ok());
  EXPECT_NE(bytes_of_file(folder.path() / "a.gguf"), bytes_of_file(folder.path() / "c.gguf"));
}

TEST(MakeModel, WeightsAreCentredWithTheStatedDeviation) {
  const TempFolder folder;
  ASSERT_TRUE(make(gguf_args(folder.path() / "model.gguf", "f32")).ok());
  const auto file = GgufFile::open(folder.path() / "model.gguf");
  ASSERT_TRUE(file.ok());
  double sum = 0;
  double squares = 0;
  const auto weights = decoded(*(*file)->find("blk.0.ffn_up.weight"));
  for (const float weight : weights) {
    sum += weight;
    squares += static_cast<double>(weight) * weight;
  }
  const auto count = static_cast<double>(weights.size());
  EXPECT_NEAR(sum / count, 0, 0.0003);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.0003);
  for (const float scale : decoded(*(*file)->find("blk.0.ffn_norm.weight"))) EXPECT_EQ(scale, 1.0F);
}

TEST(MakeModel, ControlTokensNeverWin) {
  const TempFolder folder;
  for (const bool tied : {false, true}) {
    MakeModelArgs args = gguf_args(folder.path() / (tied ? "tied.gguf" : "untied.gguf"), "q8_0");
    args.shape.tie_word_embeddings = tied;
    ASSERT_TRUE(make(args).ok());
    const auto file = GgufFile::open(args.output);
    ASSERT_TRUE(file.ok());
    const auto logits = decoded(*(*file)->find(tied ? "token_embd.weight" : "output.weight"));
    for (std::size_t i = 696 * 256; i < logits.size(); ++i) ASSERT_EQ(logits[i], 0.0F);
    EXPECT_NE(logits[696 * 256 - 1], 0.0F);
  }
}

TEST(MakeModel, BothFormatsTokenizeAlike) {
  const TempFolder folder;
  const MakeModelArgs hugging_face{
      .shape = tiny_shape(), .encoding = "bf16", .output = folder.path() / "hf"};
  ASSERT_EQ(make(hugging_face).to_string(), "");
  ASSERT_EQ(make(gguf_args(folder.path() / "model.gguf", "bf16")).to_string(), "");
  const auto first = open_text((folder.path() / "hf").string());
  const auto second = open_text((folder.path() / "model.gguf").string());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  for (const char* text : {"", "the quick brown fox", " rates  and notes\n\nin 1984: na\u00EFve",
                           "<|im_start|>user\nante<|im_end|>"}) {
    const auto ids = first->tokenizer->encode(text);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, second->tokenizer->encode(text).value()) << text;
    EXPECT_EQ(first->tokenizer->decode(*ids, /*skip_special_tokens=*/false), text);
  }
  EXPECT_EQ(first->tokenizer->encode("<|im_end|>", {.parse_special = true}).value(),
            (std::vector<TokenId>{699}));
  EXPECT_TRUE(first->tokenizer->is_eos(697) && second->tokenizer->is_eos(697));
  EXPECT_TRUE(first->tokenizer->is_eos(699) && second->tokenizer->is_eos(699));
  EXPECT_TRUE(first->chat_template.has_value() && second->chat_template.has_value());
}

TEST(MakeModel, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  const fs::path path = folder.path() / "model.gguf";
  ASSERT_TRUE(make(gguf_args(path, "q8_0")).ok());
  EXPECT_THAT(make(gguf_args(path, "q8_0")).to_string(), HasSubstr("exists already"));

  MakeModelArgs args = gguf_args(folder.path() / "other.gguf", "q3_k");
  EXPECT_THAT(make(args).to_string(), HasSubstr("q4_k_m"));
  args.encoding = "q8_0";
  args.format = ModelFormat::kHuggingFace;
  EXPECT_THAT(make(args).to_string(), HasSubstr("one of: f32, f16, bf16; --format gguf has more"));

  args = gguf_args(folder.path() / "nowhere" / "model.gguf", "q8_0");
  EXPECT_EQ(make(args).code(), StatusCode::kIoError);

  args = gguf_args(folder.path() / "vast.gguf", "f32");
  args.shape.num_layers = 1000;
  args.shape.intermediate_size = 1'000'000'000;
  EXPECT_EQ(make(args).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(fs::exists(args.output.string() + ".part"));

  EXPECT_THAT(find_shape("llama-9b").status().to_string(), HasSubstr("tinyllama-1.1b"));
}

TEST(MakeModel, AnInterruptLeavesNothing) {
  const TempFolder folder;
  ThreadPool pool(1);
  MakeModelArgs args{.shape = tiny_shape(), .encoding = "bf16", .output = folder.path() / "hf"};
  for (const ModelFormat format : {ModelFormat::kHuggingFace, ModelFormat::kGguf}) {
    args.format = format;
    const Status status = make_model(
        args, pool, [](std::uint64_t done, std::uint64_t total) { return done < total / 2; });
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
}

TEST(SyntheticVocab, EveryTokenIsMadeOnceAndByTokensThatAreThere) {
  for (const std::int64_t size : {260, 700, 32000, 128256}) {
    const auto vocab = make_synthetic_vocab(size);
    ASSERT_TRUE(vocab.ok());
    ASSERT_EQ(vocab->tokens.size(), static_cast<std::size_t>(size));
    const std::set<std::string> all(vocab->tokens.begin(), vocab->tokens.end());
    EXPECT_EQ(all.size(), vocab->tokens.size());
    EXPECT_EQ(vocab->merges.size(), static_cast<std::size_t>(size - 260));
    for (const auto& [left, right] : vocab->merges) {
      ASSERT_TRUE(all.contains(left) && all.contains(right) && all.contains(left + right));
    }
  }
  EXPECT_EQ(make_synthetic_vocab(259).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(make_synthetic_vocab(1'000'000).status().code(), StatusCode::kInvalidArgument);
}

TEST(ModelShape, RopeFactorsAreThoseOfLlama3) {
  const auto factors = rope_frequency_factors(find_shape("llama-3.2-3b").value());
  ASSERT_EQ(factors.size(), 64U);
  EXPECT_EQ(factors.front(), 1.0F);
  EXPECT_EQ(factors.back(), 32.0F);
  EXPECT_TRUE(rope_frequency_factors(find_shape("smollm-135m").value()).empty());
}

}  // namespace
}  // namespace quire
