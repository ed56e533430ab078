#include "apps/chat/history.h"

#include <fmt/format.h>

#include "apps/conversation.h"
#include "apps/jsonl.h"
#include "apps/output_file.h"

namespace quire {
namespace {

constexpr std::size_t kMaxConversationBytes = std::size_t{64} << 20;
constexpr int kMaxArgumentsDepth = 256;

bool has_role(const json::value& message, std::string_view role) {
  const json::value* found = message.get_object().if_contains("role");
  return found != nullptr && found->is_string() && found->get_string() == role;
}

// A history has objects alone: no model is shown what it could not have meant.
std::string object_text(const std::string& arguments) {
  const auto parsed = parse_json(arguments, "arguments", kMaxArgumentsDepth);
  return parsed.ok() && parsed->is_object() ? arguments : "{}";
}

}  // namespace

json::object answer_message(const ChatAnswer& answer) {
  json::object message = {{"role", "assistant"}, {"content", answer.text}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  if (answer.calls.empty()) return message;
  json::array calls;
  for (const AnsweredCall& call : answer.calls) {
    calls.push_back(json::object{
        {"id", call.id},
        {"type", "function"},
        {"function", {{"name", call.name}, {"arguments", object_text(call.arguments)}}}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

std::string_view ChatHistory::system() const {
  const json::array& messages = conversation_.messages;
  if (messages.empty() || !has_role(messages[0], "system")) return {};
  const json::value* content = messages[0].get_object().if_contains("content");
  return content != nullptr && content->is_string() ? std::string_view(content->get_string()) : "";
}

void ChatHistory::set_system(const std::string& text) {
  json::array& messages = conversation_.messages;
  if (!messages.empty() && has_role(messages[0], "system")) messages.erase(messages.begin());
  if (text.empty()) return;
  messages.insert(messages.begin(), json::object{{"role", "system"}, {"content", text}});
}

void ChatHistory::clear() {
  json::array& messages = conversation_.messages;
  const bool keeps_first = !messages.empty() && has_role(messages[0], "system");
  messages.erase(messages.begin() + (keeps_first ? 1 : 0), messages.end());
}

std::size_t ChatHistory::last_question() const {
  const json::array& messages = conversation_.messages;
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (has_role(messages[i], "user")) return i;
  }
  return messages.size();
}

bool ChatHistory::undo() {
  json::array& messages = conversation_.messages;
  const std::size_t last = last_question();
  if (last == messages.size()) return false;
  messages.resize(last);
  return true;
}

Conversation ChatHistory::asking(const std::string& question) const {
  Conversation asked = conversation_;
  asked.messages.push_back(json::object{{"role", "user"}, {"content", question}});
  return asked;
}

std::optional<Conversation> ChatHistory::asking_again() const {
  const std::size_t last = last_question();
  if (last == conversation_.messages.size()) return std::nullopt;
  Conversation asked = conversation_;
  asked.messages.resize(last + 1);
  return asked;
}

void ChatHistory::take(Conversation asked, const ChatAnswer& answer) {
  conversation_ = std::move(asked);
  conversation_.messages.push_back(answer_message(answer));
}

Status ChatHistory::save(const std::string& path) const {
  json::object file = {{"messages", conversation_.messages}};
  if (conversation_.tools) file["tools"] = *conversation_.tools;
  if (conversation_.documents) file["documents"] = *conversation_.documents;
  if (!conversation_.chat_template_kwargs.empty()) {
    file["chat_template_kwargs"] = conversation_.chat_template_kwargs;
  }
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(path));
  QUIRE_RETURN_IF_ERROR(output.write(json::serialize(file) + "\n"));
  return output.close();
}

Result<ChatHistory> ChatHistory::load(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const auto stream, open_input(path));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_all(*stream, kMaxConversationBytes));
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, path));
  ChatHistory history;
  QUIRE_ASSIGN_OR_RETURN(history.conversation_, parse_conversation(value, path));
  if (history.conversation_.continue_final_message ||
      !history.conversation_.add_generation_prompt) {
    return Status::invalid_argument(fmt::format("{}: a chat always asks for a new answer", path),
                                    "leave out continue_final_message and add_generation_prompt");
  }
  return history;
}

}  // namespace quire
