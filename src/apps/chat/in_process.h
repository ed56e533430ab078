// A chat with an engine in this process.
#pragma once

#include "apps/chat/backend.h"
#include "base/json.h"
#include "engine/api.h"
#include "serve/models/answer_dialect.h"
#include "serve/protocols/conversation_defaults.h"

namespace quire {

class InProcessChat final : public ChatBackend {
 public:
  // Borrows the engine. `dialect`: how its model writes calls and reasoning. `sampling` are the
  // fields that the user gave, on top of what a conversation starts from; kInvalidArgument for a
  // broken one.
  static Result<std::unique_ptr<InProcessChat>> create(Engine& engine, const DialectChoice& dialect,
                                                       const json::object& sampling);

  std::string_view model_name() const override { return engine_.info().model_name; }
  std::optional<std::int64_t> max_model_len() const override {
    return engine_.info().max_model_len;
  }
  std::string sampling() const override;
  Status set_sampling(const std::string& name, const json::value& value) override;
  Status check_tools() const override;
  Result<ChatAnswer> answer(const Conversation& conversation, const json::value& tool_choice,
                            const OnText& on_text, std::stop_token stop) override;

 private:
  class Pieces;

  InProcessChat(Engine& engine, const DialectChoice& dialect)
      : engine_(engine),
        dialect_(dialect, engine),
        defaults_(conversation_defaults(engine)),
        params_(defaults_.params) {}

  Status take_sampling(const json::object& fields);
  Result<GenerateRequest> prepare(const Conversation& conversation, const json::value& tool_choice,
                                  AnswerParsing& parsing) const;
  Result<ChatAnswer> read_answer(RequestId id, Pieces& pieces, const AnswerParsing& parsing,
                                 const OnText& on_text, const std::stop_token& stop);

  Engine& engine_;
  AnswerDialect dialect_;
  ConversationDefaults defaults_;
  SamplingParams params_;
  bool sampling_given_ = false;  // one of what the defaults are about
  bool max_tokens_given_ = false;
};

}  // namespace quire
