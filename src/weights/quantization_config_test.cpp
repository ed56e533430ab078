#include "weights/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace quantization_config_test {

using ::testing::HasSubstr;

Result<QuantizationConfig> read(const std::string& text) {
  const auto value = parse_json(text, "a test");
  EXPECT_TRUE(value.ok()) << text;
  return read_quantization_config(JsonReader(value->get_object(), "config.json"));
}

void expect_refused(const std::string& quantization, const std::vector<std::string>& words,
                    StatusCode code = StatusCode::kUnimplemented) {
  const auto config = read(R"({"quantization_config": )" + quantization + "}");
  ASSERT_FALSE(config.ok()) << quantization;
  EXPECT_EQ(config.status().code(), code) << quantization;
  for (const std::string& word : words) EXPECT_THAT(config.status().to_string(), HasSubstr(word));
}

TEST(QuantizationConfig, AbsentAndNullMeanNone) {
  EXPECT_EQ(read("{}")->method, QuantizationMethod::kNone);
  EXPECT_EQ(read(R"({"quantization_config": null})")->method, QuantizationMethod::kNone);
}

TEST(QuantizationConfig, ReadsGptq) {
  const auto config = read(R"({"quantization_config": {"quant_method": "gptq", "bits": 4,
      "group_size": 128, "desc_act": true, "sym": true}})");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->method, QuantizationMethod::kGptq);
  EXPECT_EQ(config->bits, 4);
  EXPECT_EQ(config->group_size, 128);
  EXPECT_TRUE(config->zeros_minus_one);
  EXPECT_FALSE(config->per_module);
  const auto second = read(R"({"quantization_config": {"quant_method": "gptq", "bits": 8,
      "group_size": -1, "checkpoint_format": "gptq_v2", "dynamic": {"+:.*": {"bits": 8}}}})");
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_FALSE(second->zeros_minus_one);
  EXPECT_TRUE(second->per_module);
}

TEST(QuantizationConfig, ReadsTheNamesOfOlderAwq) {
  const auto config = read(R"({"quantization_config": {"quant_method": "awq", "w_bit": 4,
      "q_group_size": 64, "version": "GEMV"}})");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->group_size, 64);
  EXPECT_TRUE(config->by_output);
}

TEST(QuantizationConfig, ReadsFloatsOfEightBits) {
  const auto config = read(R"({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->method, QuantizationMethod::kFp8);
}

TEST(QuantizationConfig, ReadsBitsAndBytes) {
  for (const std::string says : {R"("load_in_8bit": true)", R"("load_in_4bit": true)",
                                 R"("load_in_4bit": true, "bnb_4bit_quant_type": "fp4")"}) {
    const auto config =
        read(R"({"quantization_config": {"quant_method": "bitsandbytes", )" + says + "}}");
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    EXPECT_EQ(config->method, QuantizationMethod::kBitsAndBytes);
  }
}

TEST(QuantizationConfig, ReadsWhoseLayoutAutoRoundHas) {
  const auto read_form = [](const std::string& form, const std::string& type) {
    return read(R"({"quantization_config": {"quant_method": "auto-round", "bits": 4,
                    "group_size": 64, "packing_format": ")" +
                form + R"(", "data_type": ")" + type + R"("}})");
  };
  for (const auto& [form, minus_one] :
       {std::pair("auto_round:auto_gptq", true), std::pair("auto_round:gptqmodel", false),
        std::pair("auto_round", false)}) {
    const auto config = read_form(form, "int");
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    EXPECT_EQ(config->method, QuantizationMethod::kGptq);
    EXPECT_EQ(config->zeros_minus_one, minus_one) << form;
  }
  EXPECT_EQ(read_form("auto_round:auto_awq", "int")->method, QuantizationMethod::kAwq);
  for (const std::string type : {"mx_fp", "nv_fp", "nv_fp4_with_static_gs", "fp8"}) {
    const auto config = read_form("auto_round:llm_compressor", type);
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    EXPECT_EQ(config->method, QuantizationMethod::kCompressedTensors);
  }
  EXPECT_FALSE(read_form("auto_round:mlx", "int").ok());
  EXPECT_FALSE(read_form("auto_round", "mystery").ok());
}

TEST(QuantizationConfig, ReadsTheOldKeyOfCompressedTensors) {
  const auto config = read(R"({"compression_config": {"format": "pack-quantized"}})");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->method, QuantizationMethod::kCompressedTensors);
}

TEST(QuantizationConfig, AnUnknownMethodIsNamedWithThoseThatAreKnown) {
  expect_refused(R"({"quant_method": "mystery"})",
                 {"quant_method = mystery", "gptq, awq", "compressed-tensors"});
  for (const std::string method : {"quanto", "aqlm", "eetq", "vptq", "modelopt"}) {
    expect_refused(R"({"quant_method": ")" + method + "\"}",
                   {"quant_method = " + method, "gptq, awq", "bitsandbytes"});
  }
}

TEST(QuantizationConfig, WhatIsNotComputedIsNamed) {
  const std::string gptq = R"({"quant_method": "gptq", "group_size": 128, "bits": )";
  expect_refused(gptq + "5}", {"bits = 5", "2, 3, 4, 8 bits"});
  expect_refused(gptq + R"(4, "checkpoint_format": "marlin"})", {"checkpoint_format = marlin"});
  expect_refused(R"({"quant_method": "gptq", "bits": 4, "group_size": 48})", {"group_size = 48"});
  expect_refused(R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", {"group_size = 0"});
  const std::string awq = R"({"quant_method": "awq", "group_size": 128, "bits": 4)";
  expect_refused(awq + R"(, "version": "gemv_fast"})", {"version = gemv_fast"});
  expect_refused(awq + R"(, "zero_point": false})", {"zero_point = false"});
  for (const std::string format : {"marlin-24", "mxfp6-pack-quantized", "sparse-24-bitmask"}) {
    expect_refused(R"({"quant_method": "compressed-tensors", "format": ")" + format + "\"}",
                   {"format = " + format, "pack-quantized", "nvfp4-pack-quantized"});
  }
  expect_refused(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                     "kv_cache_scheme": {"num_bits": 8}})",
                 {"kv_cache_scheme"});
  expect_refused(R"({"quant_method": "fp8", "weight_block_size": [64, 128]})",
                 {"weight_block_size = [64,128]"});
  expect_refused(R"({"quant_method": "fp8", "fmt": "e5m2"})", {"fmt = e5m2"});
  expect_refused(R"({"quant_method": "bitsandbytes"})", {"load_in_8bit"});
  expect_refused(R"({"quant_method": "torchao", "quant_type": "int8_weight_only"})",
                 {"quant_type = \"int8_weight_only\"", "torchao 0.15"});
  const std::string torchao =
      R"({"quant_method": "torchao", "quant_type": {"default": {"_type": ")";
  expect_refused(torchao + R"(Int4WeightOnlyConfig"}}})",
                 {"_type = Int4WeightOnlyConfig", "no whole numbers of steps"});
  expect_refused(torchao + R"(UIntXWeightOnlyConfig"}}})",
                 {"_type = UIntXWeightOnlyConfig", "Int8WeightOnlyConfig"});
  expect_refused(R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
                     "bnb_4bit_quant_type": "af4"})",
                 {"bnb_4bit_quant_type = af4", "nf4, fp4"});
  expect_refused(R"({"quant_method": "auto-round", "packing_format": "auto_round:mystery"})",
                 {"packing_format = auto_round:mystery"});
}

TEST(QuantizationConfig, WhatIsMissingOrOfTheWrongKindIsNamed) {
  expect_refused("[]", {"quantization_config"}, StatusCode::kBadModel);
  expect_refused("{}", {"quant_method"}, StatusCode::kBadModel);
  expect_refused(R"({"quant_method": "gptq", "group_size": 128})", {"bits"}, StatusCode::kBadModel);
  expect_refused(R"({"quant_method": "gptq", "bits": "4", "group_size": 128})", {"bits"},
                 StatusCode::kBadModel);
}

}  // namespace quantization_config_test
}  // namespace quire
