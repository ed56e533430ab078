// A chat with an engine in this process.
#pragma once

#include "apps/chat/backend.h"
#include "base/json.h"
#include "engine/api.h"
#include "serve/protocols/conversation_defaults.h"

namespace quire {

class InProcessChat final : public ChatBackend {
 public:
  // Borrows the engine. `sampling` are the fields that the user gave, on top of what a conversation
  // starts from; kInvalidArgument for a broken one.
  static Result<std::unique_ptr<InProcessChat>> create(Engine& engine,
                                                       const json::object& sampling);

  std::string_view model_name() const override { return engine_.info().model_name; }
  std::optional<std::int64_t> max_model_len() const override {
    return engine_.info().max_model_len;
  }
  std::string sampling() const override;
  Status set_sampling(const std::string& name, const json::value& value) override;
  Result<ChatAnswer> answer(const Conversation& conversation, const OnText& on_text,
                            std::stop_token stop) override;

 private:
  explicit InProcessChat(Engine& engine)
      : engine_(engine), defaults_(conversation_defaults(engine)), params_(defaults_.params) {}

  Status take_sampling(const json::object& fields);

  Engine& engine_;
  ConversationDefaults defaults_;
  SamplingParams params_;
  bool sampling_given_ = false;  // one of what the defaults are about
  bool max_tokens_given_ = false;
};

}  // namespace quire
