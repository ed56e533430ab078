// A simulated engine that says what a test tells it to: the tokens of its outputs are those of a
// text, so that what recorded models wrote goes through the whole server.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/api.h"
#include "sim/wrapped_executor.h"
#include "support/openai_api.h"

namespace quire::test {

class Script {
 public:
  // What computes as `inner` does and says what this has; this has to outlive it.
  std::unique_ptr<Executor> wrap(std::unique_ptr<Executor> inner) {
    return std::make_unique<Speaker>(*this, std::move(inner));
  }
  // While nothing runs: what every output from now on is, with an end-of-sequence token behind it.
  void say(const Tokenizer& tokenizer, std::string_view text) {
    auto ids = tokenizer.encode(text, {.add_special_tokens = false, .parse_special = true});
    EXPECT_TRUE(ids.ok()) << ids.status().to_string();
    tokens_ = *std::move(ids);
    tokens_.push_back(tokenizer.eos_ids()[0]);
  }

 private:
  class Speaker final : public WrappedExecutor {
   public:
    Speaker(const Script& script, std::unique_ptr<Executor> inner)
        : WrappedExecutor(std::move(inner)), script_(script) {}
    Status collect(ModelRunnerOutput& result) override {
      const Status status = WrappedExecutor::collect(result);
      for (SampledToken& token : result.sampled) {
        const std::size_t position = positions_[token.request_id]++;
        token.token_id =
            position < script_.tokens_.size() ? script_.tokens_[position] : script_.tokens_.back();
      }
      return status;
    }

   private:
    const Script& script_;
    std::unordered_map<RequestId, std::size_t> positions_;
  };

  std::vector<TokenId> tokens_ = {0};
};

// The API over it. What the simulation has in its KV cache are other tokens, so none are found
// there.
class ScriptedApi {
 public:
  explicit ScriptedApi(const std::string& chat_template, ServiceConfig config = {})
      : api_(args_of(chat_template), std::move(config)) {}

  void say(std::string_view text) { script_.say(api_.engine->tokenizer(), text); }
  Api& api() { return api_; }

 private:
  SimulatedEngineArgs args_of(const std::string& chat_template) {
    SimulatedEngineArgs args;
    args.engine.chat_template = chat_template;
    args.engine.enable_prefix_caching = false;
    args.engine.max_model_len = 4096;
    args.wrap = [this](std::unique_ptr<Executor> inner) { return script_.wrap(std::move(inner)); };
    return args;
  }

  Script script_;
  Api api_;
};

}  // namespace quire::test
