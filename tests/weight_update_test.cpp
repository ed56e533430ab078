// A running engine whose tensors are replaced is one that was loaded with them, bit for bit.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "load/model_bundle.h"
#include "support/collector.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

using quire::testing::TempFolder;
using ::testing::HasSubstr;

// Families whose tensors lie in many ways: some in one matrix, by head, turned around, experts'.
constexpr std::string_view kUpdatedFamilies[] = {
    "llama", "gemma3", "phi3",      "gpt2",   "bloom",       "opt",     "qwen2",
    "mpt",   "gemma4", "qwen3_moe", "llama4", "deepseek_v3", "gpt_oss", "gemma3n_sizes"};

// Other numbers: every seventh has the other sign.
std::vector<std::uint8_t> changed(const TensorInfo& tensor) {
  std::vector<std::uint8_t> bytes(tensor.data.begin(), tensor.data.end());
  const std::size_t size = tensor.encoding == Encoding::kF32 ? 4 : 2;
  for (std::size_t i = size - 1; i < bytes.size(); i += 7 * size) bytes[i] ^= 0x80U;
  return bytes;
}

struct Checkpoint {
  explicit Checkpoint(const std::string& path) : bundle(open_model(path, "").value()) {
    for (const TensorInfo& tensor : bundle.weights->tensors()) {
      own.push_back(tensor);
      bytes.push_back(changed(tensor));
      others.push_back(tensor);
      others.back().data = bytes.back();
    }
  }
  ModelBundle bundle;
  std::vector<TensorInfo> own;
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<TensorInfo> others;  // the same with changed numbers
};

// A copy of the model with changed numbers.
void write_changed(const std::string& from, const Checkpoint& checkpoint,
                   const std::filesystem::path& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  for (const TensorInfo& tensor : checkpoint.others) {
    const auto path = to / std::filesystem::path(tensor.file).filename();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(tensor.file_offset));
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size()));
    ASSERT_TRUE(file.good()) << path;
  }
}

std::unique_ptr<Engine> engine_of(const std::string& model, const std::string& quantization) {
  EngineArgs args;
  args.model = model;
  args.threads = 2;
  args.max_model_len = 64;
  args.max_num_seqs = 4;
  args.quantization = quantization;
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? std::move(*engine) : nullptr;
}

Output run(Engine& engine) {
  Collector collector(1);
  GenerateRequest request;
  for (TokenId id = 3; id < 38; ++id) request.prompt_token_ids.push_back(id);
  request.params.temperature = 0;
  request.params.ignore_eos = true;
  request.params.logprobs = 3;
  const auto id = engine.submit(std::move(request), collector.sink(0));
  EXPECT_TRUE(id.ok()) << id.status().to_string();
  if (!id.ok()) return {};
  collector.wait_for(1);
  return collector.take()[0].at(0);
}

class WeightUpdate : public ::testing::TestWithParam<std::string_view> {
 protected:
  void replace_and_restore(const std::string& quantization) {
    const std::string model = family_model(GetParam(), "hf");
    const Checkpoint checkpoint(model);
    const TempFolder folder;
    const std::filesystem::path copy = folder.path() / "changed";
    write_changed(model, checkpoint, copy);
    const auto engine = engine_of(model, quantization);
    const auto other = engine_of(copy.string(), quantization);
    ASSERT_TRUE(engine && other);
    const Output before = run(*engine);
    const Output wanted = run(*other);
    ASSERT_NE(before, wanted);

    Status status = engine->update_weights(checkpoint.others);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(run(*engine), wanted);
    EXPECT_EQ(run(*engine), wanted);  // from the prefix cache that it has now

    // And back in two parts, so that each builds on what the other has left.
    for (const bool first_layer : {true, false}) {
      std::vector<TensorInfo> part;
      std::ranges::copy_if(checkpoint.own, std::back_inserter(part), [&](const TensorInfo& tensor) {
        // Before the number of an expert, which stands behind the layer's, or of a stream.
        const std::size_t numbered =
            std::min(tensor.name.find("experts."), tensor.name.find("projections."));
        return (tensor.name.find(".0.") < numbered) == first_layer;
      });
      ASSERT_FALSE(part.empty());
      status = engine->update_weights(part);
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (first_layer) {
        EXPECT_NE(run(*engine), before);
      }
    }
    EXPECT_EQ(run(*engine), before);
  }
};

TEST_P(WeightUpdate, IsALoadWithOtherTensors) { replace_and_restore("none"); }

class WeightUpdateQuantized : public WeightUpdate {};
TEST_P(WeightUpdateQuantized, QuantizesAgain) { replace_and_restore("int8"); }

INSTANTIATE_TEST_SUITE_P(Families, WeightUpdate, ::testing::ValuesIn(kUpdatedFamilies),
                         [](const auto& test) { return std::string(test.param); });

INSTANTIATE_TEST_SUITE_P(Families, WeightUpdateQuantized, ::testing::Values("llama", "qwen3_moe"),
                         [](const auto& test) { return std::string(test.param); });

class WeightUpdateErrors : public ::testing::Test {
 protected:
  // Refused with this in the message, and nothing has changed.
  void expect_refused(const std::vector<TensorInfo>& tensors, StatusCode code,
                      const std::string& message) {
    const Status status = engine_->update_weights(tensors);
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_EQ(run(*engine_), before_);
  }
  TensorInfo tensor(const std::string& name) const {
    return *std::ranges::find(checkpoint_.others, name, &TensorInfo::name);
  }

  Checkpoint checkpoint_{tiny_llama("hf")};
  std::unique_ptr<Engine> engine_ = engine_of(tiny_llama("hf"), "none");
  Output before_ = run(*engine_);
};

TEST_F(WeightUpdateErrors, NameWhatIsWrong) {
  using enum StatusCode;
  TensorInfo wrong = tensor("model.norm.weight");
  wrong.name = "model.nrom.weight";
  expect_refused({wrong}, kInvalidArgument, "no tensor model.nrom.weight");
  wrong = tensor("model.norm.weight");
  wrong.shape.push_back(1);
  expect_refused({wrong}, kInvalidArgument, "model.norm.weight: shape [");
  wrong = tensor("model.norm.weight");
  wrong.data = wrong.data.first(wrong.data.size() - 1);
  expect_refused({wrong}, kInvalidArgument, "bytes do not fit");
  wrong = tensor("model.norm.weight");
  expect_refused({wrong, wrong}, kInvalidArgument, "comes twice");
  expect_refused({tensor("model.layers.0.self_attn.q_proj.weight")}, kInvalidArgument,
                 "lie in one matrix");
  wrong = tensor("model.layers.0.mlp.down_proj.weight");
  const std::vector<std::uint8_t> not_numbers(wrong.data.size(), 0xFF);
  wrong.data = not_numbers;
  expect_refused({tensor("model.norm.weight"), wrong}, kBadModel, "down_proj");
}

TEST_F(WeightUpdateErrors, NobodyMayRun) {
  // Four at a time they need more steps than results may wait, so they cannot come to their end
  // while the first token is handed out.
  constexpr std::size_t kRequests = 12;
  Collector collector(kRequests);
  std::promise<void> submitted;
  std::promise<Status> status;
  std::once_flag told;
  for (std::size_t i = 0; i < kRequests; ++i) {
    GenerateRequest request;
    request.prompt_token_ids = {1, 2, 3};
    request.params.ignore_eos = true;
    request.params.max_tokens = 60;
    const auto sink = [&, take = collector.sink(i)](const RequestOutput& output) mutable {
      std::call_once(told, [&] {
        submitted.get_future().wait();
        status.set_value(engine_->update_weights(checkpoint_.own));
      });
      take(output);
    };
    ASSERT_TRUE(engine_->submit(std::move(request), sink).ok());
  }
  submitted.set_value();
  const Status refused = status.get_future().get();
  collector.wait_for(kRequests);
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("requests run or wait"));
}

TEST(WeightUpdateOfQuantized, IsRefused) {
  const std::string model = tiny_llama("tiny_llama_q4_0.gguf");
  const auto engine = engine_of(model, "none");
  const ModelBundle bundle = open_model(model, "").value();
  for (const TensorInfo& tensor : bundle.weights->tensors()) {
    if (tensor.shape.size() < 2) continue;
    const Status status = engine->update_weights({tensor});
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr(tensor.name));
  }
}

}  // namespace
}  // namespace quire::test
