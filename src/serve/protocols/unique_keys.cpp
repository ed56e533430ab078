#include "serve/protocols/unique_keys.h"

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>

namespace quire {

namespace json = boost::json;

namespace {

// Takes a parser's events and keeps the keys of the objects that are open. Every function returns
// whether parsing goes on.
class KeyHandler {
 public:
  constexpr static std::size_t max_object_size = std::size_t(-1);
  constexpr static std::size_t max_array_size = std::size_t(-1);
  constexpr static std::size_t max_key_size = std::size_t(-1);
  constexpr static std::size_t max_string_size = std::size_t(-1);
  using Error = json::error_code;
  using Text = json::string_view;

  std::optional<std::string> duplicate;

  bool on_document_begin(Error& /*error*/) { return true; }
  bool on_document_end(Error& /*error*/) { return true; }
  bool on_object_begin(Error& /*error*/) {
    open_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t /*count*/, Error& /*error*/) {
    open_.pop_back();
    return true;
  }
  bool on_key_part(Text part, std::size_t /*size*/, Error& /*error*/) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, std::size_t /*size*/, Error& /*error*/) {
    key_.append(part.data(), part.size());
    const bool fresh = open_.back().insert(key_).second;
    if (!fresh) duplicate = std::move(key_);
    key_.clear();
    return fresh;
  }
  bool on_array_begin(Error& /*error*/) { return true; }
  bool on_array_end(std::size_t /*count*/, Error& /*error*/) { return true; }
  bool on_string_part(Text /*part*/, std::size_t /*size*/, Error& /*error*/) { return true; }
  bool on_string(Text /*part*/, std::size_t /*size*/, Error& /*error*/) { return true; }
  bool on_number_part(Text /*part*/, Error& /*error*/) { return true; }
  bool on_int64(std::int64_t /*value*/, Text /*text*/, Error& /*error*/) { return true; }
  bool on_uint64(std::uint64_t /*value*/, Text /*text*/, Error& /*error*/) { return true; }
  bool on_double(double /*value*/, Text /*text*/, Error& /*error*/) { return true; }
  bool on_bool(bool /*value*/, Error& /*error*/) { return true; }
  bool on_null(Error& /*error*/) { return true; }
  bool on_comment_part(Text /*part*/, Error& /*error*/) { return true; }
  bool on_comment(Text /*part*/, Error& /*error*/) { return true; }

 private:
  std::vector<std::unordered_set<std::string>> open_;
  std::string key_;
};

}  // namespace

std::optional<std::string> find_duplicate_key(std::string_view text) {
  json::parse_options options;
  options.max_depth = 64;
  json::basic_parser<KeyHandler> parser(options);
  json::error_code error;
  parser.write_some(false, text.data(), text.size(), error);
  return std::move(parser.handler().duplicate);
}

}  // namespace quire
