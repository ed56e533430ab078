#include "serve/protocols/openai/response_replay.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

class EventWriter {
 public:
  void add(std::string_view type, json::object fields) {
    fields["type"] = type;
    fields["sequence_number"] = next_++;
    text_ += fmt::format("event: {}\ndata: {}\n\n", type, json::serialize(fields));
  }
  std::string take() { return std::move(text_); }

 private:
  std::int64_t next_ = 0;
  std::string text_;
};

// The response as it was before it had begun.
json::object at_its_start(json::object response) {
  response["status"] = "in_progress";
  response["output"] = json::array();
  for (const char* name : {"usage", "completed_at", "incomplete_details"}) response[name] = nullptr;
  return response;
}

void replay_call(EventWriter& events, const json::object& item, std::size_t index) {
  const auto about = [&](json::object fields) {
    fields["item_id"] = item.at("id");
    fields["output_index"] = index;
    return fields;
  };
  const json::value& arguments = item.at("arguments");
  events.add("response.function_call_arguments.delta", about({{"delta", arguments}}));
  events.add("response.function_call_arguments.done",
             about({{"name", item.at("name")}, {"arguments", arguments}}));
}

void replay_content(EventWriter& events, const json::object& item, std::size_t index) {
  const json::array& content = item.at("content").as_array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto about_part = [&](json::object fields) {
      fields["item_id"] = item.at("id");
      fields["output_index"] = index;
      fields["content_index"] = i;
      return fields;
    };
    const json::object& part = content[i].as_object();
    json::object empty = part;
    empty["text"] = "";
    const json::value& text = part.at("text");
    if (part.at("type") == "reasoning_text") {
      events.add("response.content_part.added", about_part({{"part", std::move(empty)}}));
      events.add("response.reasoning_text.delta", about_part({{"delta", text}}));
      events.add("response.reasoning_text.done", about_part({{"text", text}}));
      events.add("response.content_part.done", about_part({{"part", part}}));
      continue;
    }
    empty["logprobs"] = json::array();
    const json::value& logprobs = part.at("logprobs");
    events.add("response.content_part.added", about_part({{"part", std::move(empty)}}));
    events.add("response.output_text.delta", about_part({{"delta", text}, {"logprobs", logprobs}}));
    events.add("response.output_text.done", about_part({{"text", text}, {"logprobs", logprobs}}));
    events.add("response.content_part.done", about_part({{"part", part}}));
  }
}

void replay_item(EventWriter& events, const json::object& item, std::size_t index) {
  const bool call = item.at("type") == "function_call";
  json::object begun = item;
  begun["status"] = "in_progress";
  if (call) {
    begun["arguments"] = "";
  } else {
    begun["content"] = json::array();
  }
  events.add("response.output_item.added", {{"output_index", index}, {"item", std::move(begun)}});
  if (call) {
    replay_call(events, item, index);
  } else {
    replay_content(events, item, index);
  }
  events.add("response.output_item.done", {{"output_index", index}, {"item", item}});
}

}  // namespace

std::string replay_events(const json::object& response) {
  EventWriter events;
  const json::object start = at_its_start(response);
  events.add("response.created", {{"response", start}});
  events.add("response.in_progress", {{"response", start}});
  const json::array& output = response.at("output").as_array();
  for (std::size_t i = 0; i < output.size(); ++i) replay_item(events, output[i].as_object(), i);
  const bool complete = response.at("status") == "completed";
  events.add(complete ? "response.completed" : "response.incomplete", {{"response", response}});
  return events.take();
}

}  // namespace quire
