#include "serve/protocols/openai/response_items.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/response_input.h"

namespace quire {
namespace {

std::string json_text(std::string_view text) { return json::serialize(json::string_view(text)); }

}  // namespace

std::string with_member(const json::object& object, std::string_view name, std::string_view value) {
  std::string text = json::serialize(object);
  text.pop_back();  // its brace
  fmt::format_to(std::back_inserter(text), R"({}"{}":{}}})", object.empty() ? "" : ",", name,
                 value);
  return text;
}

void ResponseEvents::add(std::string_view type, json::object fields, std::string_view name,
                         std::string_view value) {
  fields["type"] = type;
  fields["sequence_number"] = next_++;
  // As one piece, so that a lack of memory leaves no half of an event.
  text_ += fmt::format("event: {}\ndata: {}\n\n", type, with_member(fields, name, value));
}

// What has the output's text is put together as text: log probabilities are most of an answer, and
// a tree of values needs several times their text.
std::string ResponseItems::part_of(const Item& item) {
  if (item.kind == Kind::kReasoning) {
    return fmt::format(R"({{"type":"reasoning_text","text":{}}})", json_text(item.text));
  }
  json::object part = output_text_part(item.text);
  part.erase("logprobs");
  return with_member(part, "logprobs", '[' + item.logprobs + ']');
}

std::string ResponseItems::json_of(const Item& item, bool begun) {
  json::object object = {{"id", item.id}};
  const std::string content = begun ? "[]" : '[' + part_of(item) + ']';
  switch (item.kind) {
    case Kind::kMessage:
      object["type"] = "message";
      object["role"] = "assistant";
      object["status"] = begun ? "in_progress" : item.status;
      return with_member(object, "content", content);
    case Kind::kReasoning:
      object["type"] = "reasoning";
      object["summary"] = json::array();
      object["status"] = begun ? "in_progress" : item.status;
      return with_member(object, "content", content);
    case Kind::kCall:
      object["type"] = "function_call";
      object["call_id"] = item.call_id;
      object["name"] = item.name;
      object["status"] = begun ? "in_progress" : item.status;
      return with_member(object, "arguments", begun ? "\"\"" : json_text(item.text));
  }
  return {};
}

json::object ResponseItems::about(const Item& item, json::object fields) const {
  fields["item_id"] = item.id;
  fields["output_index"] = items_.size() - 1;
  if (item.kind != Kind::kCall) fields["content_index"] = 0;
  return fields;
}

ResponseItems::Item& ResponseItems::open(Kind kind) {
  if (open_) close_last("completed");
  Item& item = items_.emplace_back();
  item.kind = kind;
  item.id = new_id(kind == Kind::kMessage ? "msg_" : kind == Kind::kReasoning ? "rs_" : "fc_");
  open_ = true;
  return item;
}

void ResponseItems::open_message() {
  if (is_open(Kind::kMessage)) return;
  Item& item = open(Kind::kMessage);
  if (events_ == nullptr) return;
  events_->add("response.output_item.added", {{"output_index", items_.size() - 1}}, "item",
               json_of(item, /*begun=*/true));
  events_->add("response.content_part.added", about(item, {}), "part", part_of(item));
}

void ResponseItems::add_delta(Item& item, std::string_view text, std::string_view logprobs) {
  if (events_ == nullptr) return;
  if (item.delta_head.empty()) {
    const std::string_view type = item.kind == Kind::kMessage     ? "response.output_text.delta"
                                  : item.kind == Kind::kReasoning ? "response.reasoning_text.delta"
                                                                  : "response.function_call_"
                                                                    "arguments.delta";
    json::object head = about(item, {});
    head["type"] = type;
    item.delta_head = fmt::format("event: {}\ndata: {}", type, json::serialize(head));
    item.delta_head.pop_back();  // its brace
  }
  std::string& out = events_->text_;
  fmt::format_to(std::back_inserter(out), R"({},"delta":{})", item.delta_head, json_text(text));
  if (item.kind == Kind::kMessage) {
    fmt::format_to(std::back_inserter(out), R"(,"logprobs":[{}])", logprobs);
  }
  fmt::format_to(std::back_inserter(out), R"(,"sequence_number":{}}})", events_->next_++);
  out += "\n\n";
}

void ResponseItems::add_text(std::string_view text, std::string_view logprobs) {
  open_message();
  Item& item = items_.back();
  if (text.empty() && logprobs.empty()) return;
  add_delta(item, text, logprobs);
  item.text += text;
  if (!item.logprobs.empty() && !logprobs.empty()) item.logprobs += ',';
  item.logprobs += logprobs;
}

void ResponseItems::add(const OutputEvent& event) {
  switch (event.kind) {
    case OutputEvent::Kind::kContent:
      return add_text(event.text, {});
    case OutputEvent::Kind::kReasoning: {
      if (!is_open(Kind::kReasoning)) {
        const Item& item = open(Kind::kReasoning);
        if (events_ != nullptr) {
          events_->add("response.output_item.added", {{"output_index", items_.size() - 1}}, "item",
                       json_of(item, /*begun=*/true));
          events_->add("response.content_part.added", about(item, {}), "part", part_of(item));
        }
      }
      add_delta(items_.back(), event.text, {});
      items_.back().text += event.text;
      return;
    }
    case OutputEvent::Kind::kCall: {
      Item& item = open(Kind::kCall);
      item.call_id = event.id;
      item.name = event.text;
      if (events_ == nullptr) return;
      events_->add("response.output_item.added", {{"output_index", items_.size() - 1}}, "item",
                   json_of(item, /*begun=*/true));
      return;
    }
    case OutputEvent::Kind::kArguments:
      add_delta(items_.back(), event.text, {});
      items_.back().text += event.text;
      return;
    case OutputEvent::Kind::kCallEnd:
      return;  // by what follows, or by the answer's end, which knows whether it was cut
  }
}

void ResponseItems::close_last(std::string_view status) {
  Item& item = items_.back();
  open_ = false;
  item.status = status;
  if (events_ == nullptr) return;
  const std::string text = json_text(item.text);
  switch (item.kind) {
    case Kind::kMessage:
      events_->add("response.output_text.done", about(item, {{"text", item.text}}), "logprobs",
                   '[' + item.logprobs + ']');
      events_->add("response.content_part.done", about(item, {}), "part", part_of(item));
      break;
    case Kind::kReasoning:
      events_->add("response.reasoning_text.done", about(item, {}), "text", text);
      events_->add("response.content_part.done", about(item, {}), "part", part_of(item));
      break;
    case Kind::kCall:
      events_->add("response.function_call_arguments.done", about(item, {{"name", item.name}}),
                   "arguments", text);
      break;
  }
  events_->add("response.output_item.done", {{"output_index", items_.size() - 1}}, "item",
               json_of(item, /*begun=*/false));
}

void ResponseItems::close(bool complete) {
  if (items_.empty()) open_message();
  if (open_) close_last(complete ? "completed" : "incomplete");
}

std::string ResponseItems::json() const {
  std::string list;
  for (const Item& item : items_) {
    if (!list.empty()) list += ',';
    list += json_of(item, /*begun=*/false);
  }
  return list;
}

json::object ResponseItems::message() const {
  std::string content;
  std::string reasoning;
  json::array calls;
  for (const Item& item : items_) {
    switch (item.kind) {
      case Kind::kMessage:
        content += item.text;
        break;
      case Kind::kReasoning:
        reasoning += item.text;
        break;
      case Kind::kCall:
        calls.push_back({{"id", item.call_id},
                         {"type", "function"},
                         {"function", {{"name", item.name}, {"arguments", item.text}}}});
        break;
    }
  }
  json::object message = {{"role", "assistant"}, {"content", content}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace quire
