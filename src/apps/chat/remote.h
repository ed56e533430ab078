// A chat with a server that speaks OpenAI's API.
#pragma once

#include <memory>
#include <string>

#include "apps/chat/backend.h"
#include "apps/chat/http_client.h"
#include "base/json.h"

namespace quire {

struct RemoteChatArgs {
  std::string base_url;
  std::string api_key;
  std::string model_name;             // empty: the first that the server lists
  json::object sampling;              // request fields as the user gave them
  std::optional<std::uint64_t> seed;  // of the first answer; each further one has the next
};

class RemoteChat final : public ChatBackend {
 public:
  // Asks the server for its models. Errors as HttpClient's; kNotFound where it has none.
  static Result<std::unique_ptr<RemoteChat>> connect(RemoteChatArgs args);

  std::string_view model_name() const override { return args_.model_name; }
  std::optional<std::int64_t> max_model_len() const override { return max_model_len_; }
  std::string sampling() const override;
  Status set_sampling(const std::string& name, const json::value& value) override;
  Result<ChatAnswer> answer(const Conversation& conversation, const json::value& tool_choice,
                            const OnText& on_text, std::stop_token stop) override;

 private:
  RemoteChat(RemoteChatArgs args, HttpClient client)
      : args_(std::move(args)), client_(std::move(client)) {}

  Status find_model();
  std::string request_body(const Conversation& conversation, const json::value& tool_choice);

  RemoteChatArgs args_;
  HttpClient client_;
  std::optional<std::int64_t> max_model_len_;
};

}  // namespace quire
