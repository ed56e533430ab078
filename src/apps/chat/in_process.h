// A chat with an engine in this process.
#pragma once

#include "apps/chat/backend.h"
#include "base/json.h"
#include "engine/api.h"

namespace quire {

class InProcessChat final : public ChatBackend {
 public:
  // Borrows the engine. `sampling` are the fields that the user gave; kInvalidArgument for a broken
  // one.
  static Result<std::unique_ptr<InProcessChat>> create(Engine& engine,
                                                       const json::object& sampling);

  std::string_view model_name() const override { return engine_.info().model_name; }
  std::optional<std::int64_t> max_model_len() const override {
    return engine_.info().max_model_len;
  }
  Result<ChatAnswer> answer(const Conversation& conversation, const OnText& on_text,
                            std::stop_token stop) override;

 private:
  InProcessChat(Engine& engine, SamplingParams params, bool max_tokens_given)
      : engine_(engine), params_(std::move(params)), max_tokens_given_(max_tokens_given) {}

  Engine& engine_;
  SamplingParams params_;
  bool max_tokens_given_;
};

}  // namespace quire
