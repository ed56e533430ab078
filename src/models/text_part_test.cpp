// Checkpoints of more than text: which text model they have, how its tensors are called, and what
// is left out.
#include "models/text_part.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "models/decoder_model.h"
#include "models/families_test_support.h"
#include "weights/safetensors.h"
#include "weights/test_support.h"

namespace quire::families_test {
namespace {

constexpr std::string_view kText = R"({"num_hidden_layers": 1, "hidden_size": 8,
    "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "head_dim": 4, "model_type": "MODEL"})";

std::string text_of(std::string_view model_type) {
  std::string text(kText);
  return text.replace(text.find("MODEL"), 5, model_type);
}

TEST(TextPart, IsReadByTheModelTypeOfItsConfiguration) {
  const DecoderSpec gemma =
      good("Gemma3ForConditionalGeneration", R"({"text_config": )" + text_of("gemma3_text") + "}");
  EXPECT_EQ(gemma.architecture, "Gemma3ForConditionalGeneration");
  EXPECT_TRUE(gemma.text_part);
  EXPECT_EQ(gemma.hidden_size, 8);
  EXPECT_EQ(gemma.attention().query_key_norm, QueryKeyNorm::kHeads);
  const std::string llava = "LlavaForConditionalGeneration";
  EXPECT_FALSE(
      good(llava, R"({"text_config": )" + text_of("llama") + "}").attention().query_key_value_bias);
  EXPECT_TRUE(
      good(llava, R"({"text_config": )" + text_of("qwen2") + "}").attention().query_key_value_bias);
  expect_refused(llava, R"({"text_config": )" + text_of("opt") + "}", StatusCode::kUnimplemented,
                 "config.json: text_config: the text model \"opt\"");
  expect_refused(llava, R"({"text_config": {"model_type": "llama", "hidden_size": "x"}})",
                 StatusCode::kBadModel, "text_config: hidden_size");
}

// Gemma 3 4B says as much as this of its text model.
TEST(TextPart, HasWhatPublishedFilesLeaveOut) {
  const DecoderSpec spec = good("Gemma3ForConditionalGeneration", R"({"text_config": {
      "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024}})");
  EXPECT_EQ(spec.vocab_size, 262208);
  EXPECT_EQ(spec.attention().num_heads, 8);
  EXPECT_EQ(spec.attention().num_kv_heads, 4);
  EXPECT_EQ(spec.attention().head_dim, 256);
  EXPECT_EQ(spec.ropes[0].factor, 8.0);
  EXPECT_EQ(spec.ropes[1].theta, 10000.0);
  EXPECT_EQ(spec.num_layers(), 34);
}

// All of Gemma 3n E4B's keys have defaults.
TEST(TextPart, Gemma3nMayLeaveOutEverything) {
  const DecoderSpec spec =
      good("Gemma3nForConditionalGeneration", R"({"text_config": {"model_type": "gemma3n_text"}})");
  EXPECT_EQ(spec.num_layers(), 35);
  EXPECT_EQ(spec.hidden_size, 2048);
  EXPECT_EQ(spec.vocab_size, 262400);
  EXPECT_EQ(spec.per_layer.vocab_size, 262144);
  EXPECT_EQ(spec.per_layer.width, 256);
  EXPECT_EQ(spec.layers[0].attention().window, 512);
  EXPECT_EQ(spec.layers[19].kv_layer(), kOwnKeys);
  EXPECT_EQ(spec.layers[20].kv_layer(), 18);
  EXPECT_EQ(spec.layers[34].kv_layer(), 19);
  EXPECT_TRUE(std::holds_alternative<SparseMlpSpec>(spec.layers[9].feed_forward));
  EXPECT_FALSE(std::holds_alternative<SparseMlpSpec>(spec.layers[10].feed_forward));
  EXPECT_EQ(spec.layers[34].intermediate_size(), 16384);
}

TEST(TextPart, PositionsInSectionsAreTheUsualOnes) {
  // Beside the keys of the whole, as in the first files.
  const DecoderSpec flat = good("Qwen2VLForConditionalGeneration", R"({"rope_theta": 500.0,
      "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "vision_config": {}})");
  EXPECT_EQ(flat.ropes[0].theta, 500.0);
  EXPECT_EQ(flat.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_TRUE(flat.attention().query_key_value_bias);
  EXPECT_EQ(good("Qwen2VLForConditionalGeneration").ropes[0].theta, 1e6);
  std::string text = text_of("qwen3_vl_text");
  text.insert(1, R"("rope_parameters": {"rope_type": "default", "mrope_interleaved": true,
                    "mrope_section": [1, 1, 0], "rope_theta": 300.0}, )");
  const DecoderSpec nested =
      good("Qwen3VLForConditionalGeneration", R"({"text_config": )" + text + "}");
  EXPECT_EQ(nested.ropes[0].theta, 300.0);
  EXPECT_EQ(nested.attention().query_key_norm, QueryKeyNorm::kHeads);
  // Of a text model alone they are not expected.
  expect_refused("Qwen2ForCausalLM", R"({"rope_scaling": {"mrope_section": [2, 3, 3]}})",
                 StatusCode::kUnimplemented, "mrope_section");
}

// A checkpoint of the Llama of kText with the names that `prefix` and `head` make, and others.
class Checkpoint {
 public:
  Checkpoint(const std::string& prefix, const std::string& head, const std::string& other) {
    add(prefix + "embed_tokens.weight", "[4, 8]", 32);
    add(prefix + "norm.weight", "[8]", 8);
    if (!head.empty()) add(head, "[4, 8]", 32);
    const std::string layer = prefix + "layers.0.";
    for (const std::string_view norm : {"input_layernorm", "post_attention_layernorm"}) {
      add(layer + std::string(norm) + ".weight", "[8]", 8);
    }
    for (const std::string_view square : {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj",
                                          "mlp.up_proj", "mlp.down_proj"}) {
      add(layer + std::string(square) + ".weight", "[8, 8]", 64);
    }
    add(layer + "self_attn.k_proj.weight", "[4, 8]", 32);
    add(layer + "self_attn.v_proj.weight", "[4, 8]", 32);
    if (!other.empty()) {
      add(other + ".encoder.weight", "[3]", 3);
      add(other + ".encoder.bias", "[2]", 2);
    }
    folder_.write("model.safetensors",
                  testing::safetensors_file("{" + header_.substr(2) + "}", offset_));
  }

  Result<TextWeights> select(DecoderSpec& spec) const {
    QUIRE_ASSIGN_OR_RETURN(auto weights, open_safetensors(folder_.path()));
    return select_text_weights(std::move(weights), spec);
  }

 private:
  void add(const std::string& name, const std::string& shape, std::size_t elements) {
    const std::size_t end = offset_ + 4 * elements;
    header_ += fmt::format(R"(, "{}": {{"dtype": "F32", "shape": {}, "data_offsets": [{}, {}]}})",
                           name, shape, offset_, end);
    offset_ = end;
  }

  testing::TempFolder folder_;
  std::string header_;
  std::size_t offset_ = 0;
};

DecoderSpec llava(std::string_view more = "") {
  return good("LlavaForConditionalGeneration",
              R"({"text_config": )" + text_of("llama") + std::string(more) + "}");
}

TEST(TextPart, TensorsAreFoundUnderEachOfThePublishedNames) {
  struct Names {
    std::string prefix;
    std::string head;
    std::string other;
  };
  for (const Names& names :
       {Names{"language_model.model.", "language_model.lm_head.weight", "vision_tower"},
        Names{"model.language_model.", "lm_head.weight", "model.multi_modal_projector"},
        Names{"model.", "lm_head.weight", "visual"}}) {
    DecoderSpec spec = llava();
    const Checkpoint checkpoint(names.prefix, names.head, names.other);
    const auto text = checkpoint.select(spec);
    ASSERT_TRUE(text.ok()) << text.status().to_string();
    EXPECT_TRUE(check_tensors(spec, *text->weights).ok())
        << check_tensors(spec, *text->weights).to_string();
    EXPECT_EQ(text->weights->tensors().size(), 12U);
    EXPECT_FALSE(spec.tie_word_embeddings);
    EXPECT_EQ(text->weights->find(names.other + ".encoder.bias"), nullptr);
    EXPECT_NE(text->weights->find(names.head), nullptr);
    const std::string part =
        names.other.starts_with("model.") ? names.other.substr(6) : names.other;
    EXPECT_EQ(text->skipped.to_text(), "2 tensors, 20 bytes of " + part);
  }
}

TEST(TextPart, EmbeddingsAreTiedAsTheFileSaysOrByWhatIsThere) {
  const Checkpoint tied("model.language_model.", "", "");
  const Checkpoint untied("model.language_model.", "lm_head.weight", "");
  DecoderSpec spec = llava();
  ASSERT_TRUE(tied.select(spec).ok());
  EXPECT_TRUE(spec.tie_word_embeddings);
  spec = llava(R"(, "tie_word_embeddings": false)");
  ASSERT_TRUE(tied.select(spec).ok());
  EXPECT_FALSE(spec.tie_word_embeddings);
  spec = llava(R"(, "tie_word_embeddings": true)");
  ASSERT_TRUE(untied.select(spec).ok());
  EXPECT_TRUE(spec.tie_word_embeddings);
}

// What is no known part of such a checkpoint might belong to the text model.
TEST(TextPart, UnknownTensorsAreNotSkipped) {
  DecoderSpec spec = llava();
  const Checkpoint checkpoint("model.language_model.", "lm_head.weight", "model.resampler");
  const auto text = checkpoint.select(spec);
  ASSERT_TRUE(text.ok());
  const Status status = check_tensors(spec, *text->weights);
  EXPECT_NE(status.message().find("model.resampler.encoder.weight is not part"), std::string::npos)
      << status.to_string();
}

TEST(TextPart, AModelOfTextAloneIsLeftAsItIs) {
  DecoderSpec spec = good("LlamaForCausalLM");
  const Checkpoint checkpoint("model.", "lm_head.weight", "vision_tower");
  const auto text = checkpoint.select(spec);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->skipped.tensors, 0);
  EXPECT_NE(text->weights->find("vision_tower.encoder.bias"), nullptr);
}

TEST(TextPart, NamesMayLackThePartOfTheBaseClass) {
  DecoderSpec spec = good("LlamaForCausalLM", text_of("llama"));
  const Checkpoint checkpoint("", "lm_head.weight", "");
  const auto text = checkpoint.select(spec);
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(check_tensors(spec, *text->weights).ok())
      << check_tensors(spec, *text->weights).to_string();
}

}  // namespace
}  // namespace quire::families_test
