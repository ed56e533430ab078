// What clients written for OpenAI, vLLM and llama.cpp rely on, over a simulated engine.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/openai_api.h"

namespace quire::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A template that knows tools, as those of Hermes and Qwen do.
constexpr const char* kToolTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'tool' %}result of {{ m.tool_call_id }}: {{ m.content }}"
    "{% else %}{{ m.content }}{% for c in m.tool_calls %}"
    "call {{ c.function.name }} {{ c.function.arguments.city }}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class TemplateFile {
 public:
  explicit TemplateFile(const std::string& source)
      : path_(testing::TempDir() + "quire_clients_test.jinja") {
    std::ofstream(path_) << source;
  }
  ~TemplateFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string param_of(const HttpResponse& response) {
  EXPECT_EQ(response.status, 400) << response.body;
  const json::object answer = object_of(response);
  const json::value& param = answer.at("error").as_object().at("param");
  return param.is_string() ? std::string(param.get_string()) : "";
}

TEST(Completions, PromptLogprobsLieInEachChoice) {
  Api api;
  const json::object answer =
      object_of(api.post(kCompletions, R"({"prompt": [[5, 6, 7], [8, 9]], "n": 2, "max_tokens": 1,
                                 "prompt_logprobs": 1})"));
  EXPECT_FALSE(answer.contains("prompt_logprobs"));
  ASSERT_EQ(answer.at("choices").as_array().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const json::array& positions = choice(answer, i).at("prompt_logprobs").as_array();
    ASSERT_EQ(positions.size(), i < 2 ? 3U : 2U) << i;
    EXPECT_TRUE(positions[0].is_null());
    EXPECT_TRUE(positions[1].as_object().contains(i < 2 ? "6" : "9")) << i;
  }
  const json::object plain =
      object_of(api.post(kCompletions, R"({"prompt": "a", "max_tokens": 1})"));
  EXPECT_FALSE(choice(plain).contains("prompt_logprobs"));
}

// Of a chat they belong to the answer, as vLLM has them.
TEST(ChatCompletions, PromptLogprobsLieInTheAnswer) {
  Api api;
  const json::object answer = object_of(api.post(
      kChatCompletions, R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1,
                            "prompt_logprobs": 0})"));
  EXPECT_EQ(answer.at("prompt_logprobs").as_array().size(),
            answer.at("usage").at("prompt_tokens").to_number<std::size_t>());
}

TEST(Completions, EchoWithLogprobsStreams) {
  Api api;
  const std::string common = R"("prompt": ["abc abc", [5, 6]], "n": 2, "max_tokens": 4, "seed": 3,
                                "echo": true, "logprobs": 1, "ignore_eos": true)";
  const json::object whole = object_of(api.post(kCompletions, "{" + common + "}"));
  const auto chunks = chunks_of(api.post(kCompletions, "{" + common + R"(, "stream": true})"));
  for (std::size_t i = 0; i < 4; ++i) {
    std::string text;
    json::object joined = {{"text_offset", json::array()},
                           {"token_logprobs", json::array()},
                           {"tokens", json::array()},
                           {"top_logprobs", json::array()}};
    for (const json::object& chunk : chunks) {
      for (const json::value& each : chunk.at("choices").as_array()) {
        if (each.at("index").as_int64() != static_cast<std::int64_t>(i)) continue;
        text += each.at("text").as_string();
        for (auto& list : joined) {
          for (const json::value& item : each.at("logprobs").at(list.key()).as_array()) {
            list.value().as_array().push_back(item);
          }
        }
      }
    }
    EXPECT_EQ(choice(whole, i).at("text").as_string(), text) << i;
    for (const char* name : {"token_logprobs", "tokens", "top_logprobs"}) {
      EXPECT_EQ(choice(whole, i).at("logprobs").at(name), joined.at(name)) << i << " " << name;
    }
    EXPECT_TRUE(joined.at("token_logprobs").as_array().front().is_null());
    const json::array& offsets = joined.at("text_offset").as_array();
    EXPECT_TRUE(std::ranges::is_sorted(offsets, {}, [](const json::value& at) {
      return at.as_int64();
    })) << i;
  }
}

TEST(Completions, AnEchoLargerThanAStreamMayHoldIsRefused) {
  ServiceConfig config;
  config.max_unsent_bytes = 4096;
  Api api({}, config);
  const json::object body = {
      {"prompt", json::array(100, 5)}, {"echo", true}, {"logprobs", 1}, {"stream", true}};
  EXPECT_EQ(param_of(api.post(kCompletions, json::serialize(body))), "echo");
}

TEST(ChatCompletions, RolesWithoutMeaningAreRefused) {
  Api api;
  const auto chat = [&](const char* role) {
    return api.post(kChatCompletions,
                    fmt::format(R"({{"messages": [{{"role": "{}", "content": "a"}}],
                                     "max_tokens": 1}})",
                                role));
  };
  for (const char* role : {"user", "assistant", "system", "developer"}) {
    EXPECT_EQ(chat(role).status, 200) << role;
  }
  for (const char* role : {"tool", "function", "king", "<|im_end|>"}) {
    EXPECT_EQ(param_of(chat(role)), "messages[0].role") << role;
  }
  // OpenAI's newer word for the same thing.
  const auto tokens = [&](const char* role) {
    const auto response = api.post(
        "/tokenize", fmt::format(R"({{"messages": [{{"role": "{}", "content": "a"}}]}})", role));
    return object_of(response).at("tokens");
  };
  EXPECT_EQ(tokens("developer"), tokens("system"));
}

TEST(ChatCompletions, AHistoryWithToolCallsRendersThroughTheTemplate) {
  const TemplateFile file(kToolTemplate);
  SimulatedEngineArgs args;
  args.engine.chat_template = file.path();
  Api api(args);
  const std::string history = R"("messages": [{"role": "user", "content": "Rain?"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
       "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "wet"}])";
  const json::object rendered = object_of(api.post("/apply-template", "{" + history + "}"));
  const std::string prompt(rendered.at("prompt").as_string());
  EXPECT_THAT(prompt, HasSubstr("call weather Oslo"));
  EXPECT_THAT(prompt, HasSubstr("<|im_start|>tool\nresult of c1: wet<|im_end|>"));
  EXPECT_TRUE(prompt.ends_with("<|im_start|>assistant\n"));
  EXPECT_EQ(api.post(kChatCompletions, "{" + history + R"(, "max_tokens": 1})").status, 200);
  EXPECT_EQ(param_of(api.post(kChatCompletions, R"({"messages": [{"role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]})")),
            "messages[0].tool_calls[0].function.arguments");
  // A template without a place for them would leave them out.
  Api plain;
  EXPECT_EQ(param_of(plain.post(kChatCompletions, R"({"messages": [{"role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]})")),
            "messages[0].tool_calls");
}

TEST(LlamaCpp, CompletionAnswersWholeAndAsEvents) {
  Api api;
  const std::string common = R"("prompt": "abc", "n_predict": 6, "seed": 4, "ignore_eos": true,
                                "repeat_penalty": 1.1, "cache_prompt": true, "id_slot": -1)";
  const json::object whole = object_of(api.post("/completion", "{" + common + "}"));
  EXPECT_EQ(whole.at("stop"), true);
  EXPECT_EQ(whole.at("stop_type"), "limit");
  EXPECT_EQ(whole.at("tokens_predicted"), 6);
  EXPECT_EQ(whole.at("truncated"), false);
  const HttpResponse events = api.post("/completion", "{" + common + R"(, "stream": true})");
  std::string text;
  bool stopped = false;
  std::string_view rest = events.body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    ASSERT_NE(end, std::string_view::npos);
    ASSERT_TRUE(rest.starts_with("data: "));
    const json::value event = parse_json(rest.substr(6, end - 6), "event").value();
    EXPECT_FALSE(stopped);
    text += event.at("content").as_string();
    stopped = event.at("stop").as_bool();
    rest.remove_prefix(end + 2);
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(whole.at("content").as_string(), text);
  // The same draw as a completion's.
  const json::object same = object_of(
      api.post(kCompletions, R"({"prompt": "abc", "max_tokens": 6, "seed": 4, "ignore_eos": true,
                        "repetition_penalty": 1.1})"));
  EXPECT_EQ(choice(same).at("text").as_string(), text);
  // Without a limit it goes on until the context is full.
  const std::int64_t most = api.engine->info().max_model_len;
  const json::object full = object_of(
      api.post("/completion", R"({"prompt": [5, 6], "n_predict": -1, "ignore_eos": true})"));
  EXPECT_EQ(full.at("tokens_predicted"), most - 2);
  EXPECT_EQ(param_of(api.post("/completion",
                              R"({"prompt": "a", "grammar": "root ::= x"})")),  // no rule x
            "grammar");
  EXPECT_EQ(param_of(api.post("/completion", R"({"prompt": ["a", "b"]})")), "prompt");
}

TEST(LlamaCpp, InfillNeedsAModelForIt) {
  Api api;
  const HttpResponse response =
      api.post("/infill", R"({"input_prefix": "int f() {", "input_suffix": "}"})");
  EXPECT_EQ(param_of(response), "input_suffix");
  EXPECT_THAT(response.body, HasSubstr("no tokens for filling in the middle"));
}

TEST(LlamaCpp, PropertiesAndSlotsAreTold) {
  Api api;
  const json::object props = object_of(api.get("/props"));
  EXPECT_EQ(props.at("model_alias"), "tiny");
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx"), api.engine->info().max_model_len);
  EXPECT_THAT(std::string(props.at("chat_template").as_string()), HasSubstr("im_start"));
  EXPECT_THAT(api.get("/props").body, Not(HasSubstr(QUIRE_SOURCE_DIR)));
  const json::array slots = parse_json(api.get("/slots").body, "slots").value().as_array();
  EXPECT_EQ(static_cast<std::int32_t>(slots.size()), api.engine->info().max_num_seqs);
  EXPECT_EQ(slots[0].at("is_processing"), false);
}

TEST(TokenizerInfo, SaysWhatATokenizerConfigSays) {
  Api api;
  const json::object info = object_of(api.get("/tokenizer_info"));
  const Tokenizer& tokenizer = api.engine->tokenizer();
  EXPECT_EQ(info.at("eos_token").as_string(), tokenizer.token_text(tokenizer.eos_ids().front()));
  EXPECT_EQ(info.at("bos_token").as_string(), tokenizer.token_text(*tokenizer.bos_id()));
  EXPECT_EQ(info.at("chat_template").as_string(), api.engine->chat_template());
  EXPECT_EQ(info.at("vocab_size"), tokenizer.vocab_size());
}

}  // namespace
}  // namespace quire::test
