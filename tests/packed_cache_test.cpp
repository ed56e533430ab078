// Packed weights that are kept on disk: the next start maps them and gives the same bits; it packs
// anew where the checkpoint or the file has changed.
#include "models/packed_cache.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "kernels/cpu_device.h"
#include "load/model_bundle.h"
#include "models/decoder_model.h"
#include "support/collector.h"
#include "support/remote_device.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PackedCacheTest : public ::testing::Test {
 protected:
  // What an engine with these settings says after a prompt.
  std::vector<Output> generate(EngineArgs args) {
    args.threads = 2;
    args.max_model_len = 64;
    auto engine = Engine::create(args, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    if (!engine.ok()) return {};
    weight_bytes_ = (*engine)->info().weight_bytes;
    Collector collector(1);
    GenerateRequest request;
    request.prompt_token_ids = {5, 9, 17, 33, 9, 40};  // that every vocabulary has
    request.params.temperature = 0;
    request.params.max_tokens = 6;
    request.params.ignore_eos = true;
    request.params.logprobs = 3;
    EXPECT_TRUE((*engine)->submit(std::move(request), collector.sink(0)).ok());
    collector.wait_for(1);
    return std::move(collector.take()[0]);
  }

  // The files that there are, and when each was written.
  std::map<fs::path, fs::file_time_type> files() const {
    std::map<fs::path, fs::file_time_type> found;
    for (const auto& entry : fs::directory_iterator(cache())) {
      found[entry.path()] = entry.last_write_time();
    }
    return found;
  }

  // A copy of a checkpoint that a test may change.
  std::string copied(const std::string& model) const {
    const fs::path to = folder_.path() / "model";
    fs::copy(model, to, fs::copy_options::recursive);
    return to;
  }

  // How loading `model` goes: where its weights came from.
  Result<std::string> load(const std::string& model,
                           LoadQuantization quantization = LoadQuantization::kNone) {
    return load(model, quantization, device_);
  }
  Result<std::string> load(const std::string& model, LoadQuantization quantization,
                           Device& device) {
    QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(model, ""));
    QUIRE_ASSIGN_OR_RETURN(
        const auto kept,
        PackedCache::open(cache(), bundle.files.path, *bundle.weights, quantization, device));
    QUIRE_RETURN_IF_ERROR(
        Model::load(bundle.spec, *bundle.weights, 64, device, nullptr, quantization, kept.get())
            .status());
    return kept->finish();
  }

  fs::path cache() const { return folder_.path() / "cache"; }

  testing::TempFolder folder_;
  CpuDevice device_{2, op_table(available_levels().back())};
  std::uint64_t weight_bytes_ = 0;
};

TEST_F(PackedCacheTest, TheNextStartMapsTheSameWeights) {
  std::vector<EngineArgs> cases;
  for (const std::string_view family : kFamilies) {
    for (const std::string& file : family_files(family)) {
      cases.emplace_back().model = family_model(family, file);
    }
  }
  for (const std::string quantization : {"int8", "int4"}) {
    cases.emplace_back().model = family_model("llama", "hf");
    cases.back().quantization = quantization;
  }
  for (const std::string file : {"tiny_llama_q4_0.gguf", "tiny_llama_f32.gguf"}) {
    cases.emplace_back().model = tiny_llama(file);
  }
  cases.emplace_back().model = tiny_encodings("tiny_compact");
  for (EngineArgs args : cases) {
    SCOPED_TRACE(args.model + " " + args.quantization);
    const auto expected = generate(args);
    const std::uint64_t bytes = weight_bytes_;
    args.packed_weights_cache = cache();
    EXPECT_EQ(generate(args), expected);
    const auto written = files();
    ASSERT_EQ(written.size(), 1U);
    EXPECT_THAT(load(args.model, *parse_load_quantization(args.quantization)).value(),
                HasSubstr("mapped from " + written.begin()->first.string()));
    EXPECT_EQ(generate(args), expected);
    EXPECT_EQ(weight_bytes_, bytes);
    EXPECT_EQ(files(), written);
    fs::remove_all(cache());
  }
}

TEST_F(PackedCacheTest, EachQuantizationHasItsFile) {
  const std::string model = family_model("llama", "hf");
  for (const auto quantization :
       {LoadQuantization::kNone, LoadQuantization::kInt8, LoadQuantization::kInt4}) {
    EXPECT_THAT(load(model, quantization).value(), HasSubstr("written to"));
  }
  EXPECT_EQ(files().size(), 3U);
  EXPECT_THAT(load(model, LoadQuantization::kInt8).value(), HasSubstr("int8"));
}

// Another kind may pack otherwise: it maps nothing that was not packed for it.
TEST_F(PackedCacheTest, EachKindOfDeviceHasItsFile) {
  const std::string model = family_model("llama", "hf");
  EXPECT_THAT(load(model).value(), HasSubstr("written to"));
  const auto remote = RemoteDevice::create(2, op_table(available_levels().back()));
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  const auto load_there = [&] { return load(model, LoadQuantization::kNone, **remote); };
  EXPECT_THAT(load_there().value(), HasSubstr("written to"));
  EXPECT_EQ(files().size(), 2U);
  EXPECT_THAT(load_there().value(), HasSubstr("mapped from"));
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
  // Nor a file of that name that another kind has written.
  const auto written = files();
  const fs::path there = std::find_if(written.begin(), written.end(), [](const auto& file) {
                           return file.first.string().find("remote") != std::string::npos;
                         })->first;
  const fs::path here =
      written.begin()->first == there ? written.rbegin()->first : written.begin()->first;
  fs::copy_file(here, there, fs::copy_options::overwrite_existing);
  EXPECT_THAT(load_there().value(), HasSubstr("written to"));
}

TEST_F(PackedCacheTest, ACheckpointThatWasWrittenAgainIsPackedAgain) {
  const std::string model = copied(family_model("llama", "hf"));
  EXPECT_THAT(load(model).value(), HasSubstr("written to"));
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
  const fs::path file = fs::path(model) / "model.safetensors";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::microseconds(1));
  EXPECT_THAT(load(model).value(), HasSubstr("another state of the checkpoint"));
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(PackedCacheTest, ADamagedFileIsWrittenAgain) {
  const std::string model = family_model("llama", "hf");
  ASSERT_TRUE(load(model).ok());
  const fs::path file = files().begin()->first;
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(4096 + 11);
    stream.put('\x55');
    stream.put('\x56');
  }
  EXPECT_THAT(load(model).value(), HasSubstr("is damaged"));
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
  fs::resize_file(file, 5000);
  EXPECT_THAT(load(model).value(), HasSubstr("cut off"));
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
}

TEST_F(PackedCacheTest, AFileWithOtherMatricesIsRefused) {
  const std::string model = family_model("llama", "hf");
  ASSERT_TRUE(load(model).ok());
  const fs::path file = files().begin()->first;
  const std::string key = PackedFile::open(file, device_.host_threads())->key();
  auto writer = PackedFileWriter::create(file, key);
  ASSERT_TRUE(writer->commit().ok());
  const auto loaded = load(model);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kBadModel);
  EXPECT_THAT(loaded.status().message(), HasSubstr(file.string()));
  EXPECT_THAT(loaded.status().remedy(), HasSubstr("remove the file"));
}

TEST_F(PackedCacheTest, AnotherThatWritesIsLeftAlone) {
  const std::string model = family_model("llama", "hf");
  ASSERT_TRUE(load(model).ok());
  const fs::path file = files().begin()->first;
  const auto writer = PackedFileWriter::create(file, "key");
  ASSERT_TRUE(writer.ok());
  EXPECT_THAT(load(model).value(), HasSubstr("mapped from"));
  fs::remove(file);
  const auto loaded = load(model);
  ASSERT_FALSE(loaded.ok());  // finish(): they were not kept
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnavailable);
  EngineArgs args;
  args.model = model;
  args.packed_weights_cache = cache();
  EXPECT_EQ(generate(args).size(), 1U);  // and serve all the same
}

// As on a full disk: the weights serve, what was written goes, and the reason shows.
TEST_F(PackedCacheTest, AFileThatCannotBeWrittenIsNoReasonToStop) {
  const std::string model = family_model("llama", "hf");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 8192, .rlim_max = before.rlim_max};
  const auto on_excess = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto loaded = load(model);
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, on_excess);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kIoError);
  EXPECT_THAT(loaded.status().message(), HasSubstr("cannot write"));
  EXPECT_TRUE(files().empty());
}

TEST_F(PackedCacheTest, AFolderThatCannotBeMadeIsAnError) {
  EngineArgs args;
  args.model = family_model("llama", "hf");
  args.packed_weights_cache = folder_.write("file", "") / "cache";
  const auto engine = Engine::create(args, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kIoError);
  EXPECT_THAT(engine.status().to_string(), HasSubstr("--packed-weights-cache"));
}

}  // namespace
}  // namespace quire::test
