#include "engine/constraints/constraint_compiler.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/model_bundle.h"

namespace quire {
namespace {

using testing::StartsWith;

class ConstraintCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto bundle = open_model(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf", "");
    ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
    tokenizer_ = std::move(bundle->text.tokenizer);
    compiler_ = std::make_unique<ConstraintCompiler>(*tokenizer_, tokenizer_->vocab_size());
  }
  static StructuredOutputsParams regex(const std::string& pattern) {
    StructuredOutputsParams constraint;
    constraint.regex = pattern;
    return constraint;
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<ConstraintCompiler> compiler_;
};

TEST_F(ConstraintCompilerTest, TheSameIsCompiledOnce) {
  const auto first = compiler_->compile(regex("a+"), {});
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  StructuredOutputsParams other_field = regex("a+");
  other_field.field = "guided_regex";
  EXPECT_EQ(compiler_->compile(other_field, {})->get(), first->get());
  EXPECT_NE(compiler_->compile(regex("a*"), {})->get(), first->get());
  StructuredOutputsParams choice;
  choice.choice = {"a+"};
  EXPECT_NE(compiler_->compile(choice, {})->get(), first->get());
}

// A budget of reasoning is counted beside the grammar, which is the same for all.
TEST_F(ConstraintCompilerTest, BudgetsOfReasoningShareAGrammar) {
  const auto with_budget = [](const std::string& member) {
    StructuredOutputsParams constraint;
    constraint.structural_tag = R"({"type": "answer", "reasoning": "qwen3", "start": "open", )" +
                                member + R"("content": {"regex": "a+"}})";
    return constraint;
  };
  const auto first = compiler_->use(with_budget(R"("thinking_budget": 6, )"));
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const auto other = compiler_->use(with_budget(R"("thinking_budget": 9000, )"));
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_EQ(first->grammar.get(), other->grammar.get());
  EXPECT_TRUE(other->work->cached);
  EXPECT_EQ(first->reasoning->tokens, 6);
  EXPECT_EQ(other->reasoning->tokens, 9000);
}

TEST_F(ConstraintCompilerTest, TheLeastRecentlyUsedGoes) {
  ASSERT_TRUE(compiler_->compile(regex("first"), {}).ok());
  for (std::size_t i = 0; i + 1 < ConstraintCompiler::kMaxKept; ++i) {
    ASSERT_TRUE(compiler_->compile(regex("x" + std::to_string(i)), {}).ok());
  }
  EXPECT_TRUE(compiler_->is_kept(regex("first")));
  ASSERT_TRUE(compiler_->compile(regex("first"), {}).ok());
  ASSERT_TRUE(compiler_->compile(regex("another"), {}).ok());
  EXPECT_TRUE(compiler_->is_kept(regex("first")));
  EXPECT_FALSE(compiler_->is_kept(regex("x0")));
}

TEST_F(ConstraintCompilerTest, ErrorsAreKeptAndNameTheField) {
  StructuredOutputsParams wrong = regex("a(");
  const Status first = compiler_->compile(wrong, {}).status();
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(first.message(), StartsWith("structured_outputs: "));
  EXPECT_TRUE(compiler_->is_kept(wrong));
  wrong.field = "guided_regex";
  EXPECT_THAT(compiler_->compile(wrong, {}).status().message(), StartsWith("guided_regex: "));
}

// Too large is the request's fault, not the server's.
TEST_F(ConstraintCompilerTest, LimitsAreTheRequestsFault) {
  const Status status = compiler_->compile(regex("((a|b)*a(a|b){1,900}){1,900}"), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
}

TEST_F(ConstraintCompilerTest, WhatIsCancelledIsNotKept) {
  const StructuredOutputsParams large = regex("((a|b)*a(a|b){1,12}){1,40}c");
  std::atomic<int> asked = 0;
  const Status status = compiler_->compile(large, [&] { return ++asked > 0; }).status();
  if (asked == 0) GTEST_SKIP() << "it was compiled before anybody asked";
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_FALSE(compiler_->is_kept(large));
}

TEST_F(ConstraintCompilerTest, ThreadsShareOneCompilation) {
  std::vector<const CompiledGrammar*> grammars(8);
  std::vector<std::thread> threads;
  for (auto& grammar : grammars) {
    threads.emplace_back([&] {
      const auto compiled = compiler_->compile(regex("([a-z]+ ){3,9}"), {});
      if (compiled.ok()) grammar = compiled->get();
    });
  }
  for (std::thread& each : threads) each.join();
  for (const CompiledGrammar* grammar : grammars) EXPECT_EQ(grammar, grammars[0]);
  EXPECT_NE(grammars[0], nullptr);
}

TEST_F(ConstraintCompilerTest, UseTellsWhetherAnotherRequestHadIt) {
  const auto first = compiler_->use(regex("b+"));
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->work->cached);
  EXPECT_GT(first->work->compile_ms, 0);
  const auto second = compiler_->use(regex("b+"));
  EXPECT_TRUE(second->work->cached);
  EXPECT_EQ(second->grammar, first->grammar);
}

}  // namespace
}  // namespace quire
