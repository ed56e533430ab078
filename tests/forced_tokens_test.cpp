// Which tokens of a constrained text the mask left no choice about, as the engine's callers are
// told.
#include <algorithm>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/api.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

std::unique_ptr<Engine> start(bool jump_forward = true) {
  EngineArgs args;
  args.model = tiny_llama("hf");
  args.threads = 2;
  args.jump_forward = jump_forward;
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? std::move(*engine) : nullptr;
}

// What is to be told of a text that matches the pattern; any text where it is empty.
GenerateRequest request(const Engine& engine, const std::string& pattern,
                        std::int64_t max_tokens = 64) {
  GenerateRequest request;
  request.prompt_token_ids = *engine.encode_text("The quick brown fox");
  request.params.temperature = 0;
  request.params.max_tokens = max_tokens;
  request.params.return_forced_tokens = true;
  if (pattern.empty()) return request;
  StructuredOutputsParams constraint;
  constraint.regex = pattern;
  request.params.structured_outputs = std::make_shared<const StructuredOutputsParams>(constraint);
  return request;
}

Output run(Engine& engine, GenerateRequest request) {
  Collector collector(1);
  const auto id = engine.submit(std::move(request), collector.sink(0));
  EXPECT_TRUE(id.ok()) << id.status().to_string();
  if (!id.ok()) return {};
  collector.wait_for(1);
  return collector.take()[0][0];
}

TEST(ForcedTokens, AreTheSameHoweverTheyAreComputed) {
  std::vector<Output> runs;
  std::unique_ptr<Engine> engine;
  for (const bool jump_forward : {true, false}) {
    engine = start(jump_forward);
    ASSERT_NE(engine, nullptr);
    runs.push_back(
        run(*engine, request(*engine, "the pages on the dog, [0-9]{3}[a-z], the pages end")));
  }
  EXPECT_EQ(runs[0], runs[1]);
  const Output& output = runs[0];
  EXPECT_GT(output.last.num_accepted_drafts, 0);
  EXPECT_EQ(runs[1].last.num_accepted_drafts, 0);
  ASSERT_EQ(output.forced_tokens.size(), output.token_ids.size());
  const auto first = engine->tokenizer().encode("the pages on", {.add_special_tokens = false});
  ASSERT_TRUE(first.ok());
  for (std::size_t i = 0; i < first->size(); ++i) EXPECT_TRUE(output.forced_tokens[i]) << i;
  std::string chosen;
  for (std::size_t i = 0; i < output.token_ids.size(); ++i) {
    if (!output.forced_tokens[i]) chosen += engine->tokenizer().token_bytes(output.token_ids[i]);
  }
  EXPECT_TRUE(std::regex_search(chosen, std::regex("[0-9]{3}[a-z]"))) << chosen;
  EXPECT_LT(std::ranges::count(output.forced_tokens, false), std::ssize(output.token_ids) / 2);
}

TEST(ForcedTokens, AreToldWhereTheyAreAskedFor) {
  const auto engine = start();
  ASSERT_NE(engine, nullptr);
  GenerateRequest silent = request(*engine, "maybe");
  silent.params.return_forced_tokens = false;
  EXPECT_TRUE(run(*engine, std::move(silent)).forced_tokens.empty());
  GenerateRequest free = request(*engine, "", 5);
  free.params.ignore_eos = true;
  EXPECT_THAT(run(*engine, std::move(free)).forced_tokens,
              testing::ElementsAre(false, false, false, false, false));
  // What else the request asks narrows the mask, too.
  GenerateRequest some = request(*engine, "[a-z]");
  some.params.allowed_token_ids = {engine->tokenizer().find("q").value()};
  some.params.stop_token_ids = some.params.allowed_token_ids;
  EXPECT_THAT(run(*engine, std::move(some)).forced_tokens, testing::ElementsAre(true));
  GenerateRequest beams = request(*engine, "");
  beams.params.beam_width = 2;
  const auto id = engine->submit(std::move(beams), [](const RequestOutput&) { ADD_FAILURE(); });
  EXPECT_THAT(id.status().message(), testing::HasSubstr("return_forced_tokens"));
}

}  // namespace
}  // namespace quire::test
