// JSON byte by byte: where a value ends, and what cannot be one. Internal to src/text/dialects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

constexpr bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Appends a byte of text as it stands within a JSON string.
void append_json_escaped(std::string& out, char c);
void append_json_escaped(std::string& out, std::string_view text);

// Follows one value. Numbers are recognised by their characters alone, and control characters in
// strings, which models write, are let through.
class JsonScanner {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,        // the value ends with this byte
    kDoneBefore,  // and with the one before it, a number's last
    kBad,         // no value goes on so
  };
  static constexpr std::size_t kMaxDepth = 256;

  Step feed(char c);
  bool in_string() const { return place_ == Place::kString; }

 private:
  enum class Place : std::uint8_t {
    kValue,
    kItemOrEnd,
    kKey,
    kKeyOrEnd,
    kColon,
    kAfter,
    kString,
    kEscape,
    kHex,
    kNumber,
    kWord,
  };

  Step begin_value(char c);
  Step open(bool object);
  Step close(bool object);
  Step end_value();

  Place place_ = Place::kValue;
  std::vector<bool> open_;  // containers; true: an object
  bool is_key_ = false;
  int hex_left_ = 0;
  std::string_view word_;  // what is left of true, false or null
};

// The content of a quoted string, its escapes resolved: JSON's, or Python's. The opening quote has
// been read.
class QuotedString {
 public:
  enum class Step : std::uint8_t { kMore, kDone, kBad };

  QuotedString(char quote, bool python) : quote_(quote), python_(python) {}
  // kBad: `c` was not accepted.
  Step feed(char c, std::string& out);
  // What was read of an escape that has no end yet.
  std::string_view pending() const { return pending_; }

 private:
  Step feed_escape(char c, std::string& out);
  Step feed_digit(char c, std::string& out);
  void add_code_point(std::uint32_t code, std::string& out);

  char quote_;
  bool python_;
  bool escape_ = false;
  int digits_left_ = 0;
  std::uint32_t code_ = 0;
  std::string pending_;
  std::uint32_t high_ = 0;  // a surrogate that waits for its other half
};

}  // namespace quire
