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

void replay_message(EventWriter& events, const json::object& item) {
  json::object begun = item;
  begun["status"] = "in_progress";
  begun["content"] = json::array();
  events.add("response.output_item.added", {{"output_index", 0}, {"item", std::move(begun)}});
  const json::array& content = item.at("content").as_array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto about_part = [&](json::object fields) {
      fields["item_id"] = item.at("id");
      fields["output_index"] = 0;
      fields["content_index"] = i;
      return fields;
    };
    const json::object& part = content[i].as_object();
    json::object empty = part;
    empty["text"] = "";
    empty["logprobs"] = json::array();
    const json::value& text = part.at("text");
    const json::value& logprobs = part.at("logprobs");
    events.add("response.content_part.added", about_part({{"part", std::move(empty)}}));
    events.add("response.output_text.delta", about_part({{"delta", text}, {"logprobs", logprobs}}));
    events.add("response.output_text.done", about_part({{"text", text}, {"logprobs", logprobs}}));
    events.add("response.content_part.done", about_part({{"part", part}}));
  }
  events.add("response.output_item.done", {{"output_index", 0}, {"item", item}});
}

}  // namespace

std::string replay_events(const json::object& response) {
  EventWriter events;
  const json::object start = at_its_start(response);
  events.add("response.created", {{"response", start}});
  events.add("response.in_progress", {{"response", start}});
  for (const json::value& item : response.at("output").as_array()) {
    replay_message(events, item.as_object());
  }
  const bool complete = response.at("status") == "completed";
  events.add(complete ? "response.completed" : "response.incomplete", {{"response", response}});
  return events.take();
}

}  // namespace quire
