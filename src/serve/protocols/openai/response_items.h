// The output of a Response as it grows: a message, reasoning and calls of functions, each an item,
// and the events of a stream that tell of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/dialects/output_parser.h"

namespace quire {

// The JSON text of `object` and one member more, whose value is JSON text already.
std::string with_member(const json::object& object, std::string_view name, std::string_view value);

// Events that are to be sent, numbered.
class ResponseEvents {
 public:
  // `value`: the JSON text of the member `name`.
  void add(std::string_view type, json::object fields, std::string_view name,
           std::string_view value);
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  friend class ResponseItems;
  std::int64_t next_ = 0;
  std::string text_;  // reused
};

class ResponseItems {
 public:
  // `events`: null where none are wanted; borrowed.
  void tell(ResponseEvents* events) { events_ = events; }

  // Opens a message where none is open: the answer's text goes there.
  void open_message();
  // New text of the message with the JSON text of its log probabilities (what is in their list).
  void add_text(std::string_view text, std::string_view logprobs);
  // A piece of an answer that is read by a dialect.
  void add(const OutputEvent& event);
  // Nothing follows; an answer without anything is an empty message. `complete`: it was not cut.
  void close(bool complete);

  // JSON text of what is in the list of items.
  std::string json() const;
  // The answer as a message of the conversation.
  json::object message() const;

 private:
  enum class Kind : std::uint8_t { kMessage, kReasoning, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id;
    std::string call_id;
    std::string name;
    std::string text;  // of a call: its arguments
    std::string logprobs;
    std::string_view status = "in_progress";
    std::string delta_head;  // of every event with a piece of it, up to the piece
  };

  Item& open(Kind kind);
  void close_last(std::string_view status);
  bool is_open(Kind kind) const { return open_ && items_.back().kind == kind; }
  void add_delta(Item& item, std::string_view text, std::string_view logprobs);
  json::object about(const Item& item, json::object fields) const;
  static std::string part_of(const Item& item);
  static std::string json_of(const Item& item, bool begun);

  ResponseEvents* events_ = nullptr;
  std::vector<Item> items_;
  bool open_ = false;  // the last item goes on
};

}  // namespace quire
