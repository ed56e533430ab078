#include "serve/protocols/openai/fill_in_middle.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace fill_in_middle_test {

using testing::HasSubstr;

constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"<|im_start|>", "<fim_prefix>"},
    {"<|im_end|>", "<fim_suffix>"},
    {"<|end_of_text|>", "<fim_middle>"}};

// The tiny model with the tokens of a model for code in place of those of a chat.
class FillInMiddleTest : public testing::Test {
 protected:
  static EngineArgs model_for_code(const std::filesystem::path& folder) {
    for (const auto& file :
         std::filesystem::directory_iterator(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf")) {
      const std::filesystem::path to = folder / file.path().filename();
      std::filesystem::copy(file.path(), to);
      if (!to.filename().string().starts_with("tokenizer")) continue;
      std::string text = *read_file(to.string(), 1U << 24);
      for (const auto& [from, name] : kRenamed) {
        for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
          text.replace(at, from.size(), name);
        }
      }
      std::ofstream(to, std::ios::binary) << text;
    }
    EngineArgs args;
    args.model = folder.string();
    return args;
  }

  HttpResponse post(const std::string& body) {
    return begin_exchange(completion_routes(service_.service()),
                          post_request("/v1/completions", body))
        ->wait();
  }

  static std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "model_for_code_XXXXXX").string();
    return mkdtemp(name.data());
  }
  ~FillInMiddleTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  const std::filesystem::path folder_ = make_folder();
  TestService service_{model_for_code(folder_)};
};

TEST_F(FillInMiddleTest, TextsStandBetweenTheirTokens) {
  const Engine& engine = service_.engine();
  const Tokenizer& tokenizer = engine.tokenizer();
  const auto ids = fill_in_middle_prompt(engine, {"The cat", "prompt"}, {" mat", "suffix"},
                                         {" on", "prompt"}, {});
  ASSERT_TRUE(ids.ok()) << ids.status().to_string();
  EXPECT_EQ(tokenizer.decode(*ids, /*skip_special_tokens=*/false),
            std::string(tokenizer.adds_bos() ? "<|begin_of_text|>" : "") +
                "<fim_prefix>The cat<fim_suffix> mat<fim_middle> on");
}

TEST_F(FillInMiddleTest, ACompletionWithASuffixIsThatPrompts) {
  const std::string rest = R"(, "max_tokens": 6, "temperature": 0, "ignore_eos": true})";
  const auto ids =
      fill_in_middle_prompt(service_.engine(), {"The cat", ""}, {" mat", ""}, {"", ""}, {});
  const std::string list = json::serialize(json::array(ids->begin(), ids->end()));
  const json::value given = parse_body(post(R"({"prompt": )" + list + rest));
  const json::value filled = parse_body(post(R"({"prompt": "The cat", "suffix": " mat")" + rest));
  EXPECT_EQ(filled.at("choices").at(0).at("text"), given.at("choices").at(0).at("text"));
  EXPECT_EQ(filled.at("usage").at("prompt_tokens").as_int64(), std::ssize(*ids));
  // Of several prompts each has it; an empty one is none.
  const json::value both =
      parse_body(post(R"({"prompt": ["The cat", "The dog"], "suffix": " mat")" + rest));
  EXPECT_EQ(both.at("choices").at(0).at("text"), filled.at("choices").at(0).at("text"));
  const json::value none = parse_body(post(R"({"prompt": "The cat", "suffix": "")" + rest));
  const json::value plain = parse_body(post(R"({"prompt": "The cat")" + rest));
  EXPECT_EQ(none.at("choices").at(0).at("text"), plain.at("choices").at(0).at("text"));
}

TEST_F(FillInMiddleTest, ControlTokensInTextsAreText) {
  const auto ids = fill_in_middle_prompt(service_.engine(), {"a<fim_middle>", "prompt"},
                                         {"b", "suffix"}, {"", "prompt"}, {});
  const auto middle = service_.engine().tokenizer().find("<fim_middle>");
  EXPECT_EQ(std::ranges::count(*ids, *middle), 1);
}

TEST_F(FillInMiddleTest, WhatContradictsASuffixIsRefused) {
  for (const std::string other :
       {R"("prompt": "a", "echo": true)", R"("prompt": "a", "truncate_prompt_tokens": 5)"}) {
    const HttpResponse refused = post("{" + other + R"(, "suffix": "b"})");
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_EQ(parse_body(refused).at("error").at("param"), "suffix");
  }
  const HttpResponse tokens = post(R"({"prompt": [5, 6], "suffix": "b"})");
  EXPECT_EQ(tokens.status, 400);
  EXPECT_THAT(tokens.body, HasSubstr("expected a string beside suffix"));
}

}  // namespace fill_in_middle_test
}  // namespace quire
