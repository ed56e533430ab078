// A call's arguments, byte by byte, to the text of a JSON object: one reader for each form in which
// dialects write them. Internal to src/text/dialects.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/dialects/dialect.h"
#include "text/dialects/json_scanner.h"
#include "text/dialects/tool_set.h"

namespace quire {

class ArgumentReader {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,  // they end with this byte, or before rest()
    kBad,   // they cannot go on so; this byte and rest() are no part of them
  };

  virtual ~ArgumentReader() = default;

  // Appends to `out` what the byte makes certain.
  virtual Step feed(char c, std::string& out) = 0;
  // Whether what has come can only be arguments. Before that, kBad says that there is no call.
  virtual bool certain() const = 0;
  // The text has ended: appends what was kept back.
  virtual void finish(std::string& /*out*/) {}
  // Bytes that were read and are in no argument.
  std::string_view rest() const { return rest_; }

 protected:
  std::string rest_;
};

// A JSON object as it is. Where it stops being JSON, everything up to one of `stops` (marks; empty
// ones do not count) still belongs to the arguments, so that the client sees what the model wrote.
// A string is read as its content, null as {}. Control characters in strings become escapes.
class JsonArguments final : public ArgumentReader {
 public:
  using Stops = std::array<std::string_view, 3>;

  explicit JsonArguments(const Stops& stops) : stops_(stops) {}
  Step feed(char c, std::string& out) override;
  bool certain() const override { return place_ != Place::kStart && place_ != Place::kNull; }
  void finish(std::string& out) override;

 private:
  enum class Place : std::uint8_t { kStart, kNull, kObject, kText, kRaw };

  Step start(char c, std::string& out);
  Step feed_raw(char c, std::string& out);

  Stops stops_;
  Place place_ = Place::kStart;
  JsonScanner scanner_;
  QuotedString text_{'"', /*python=*/false};
  bool any_text_ = false;
  std::string_view null_ = "ull";
  std::string held_;  // what may become a stop
};

// Values between tags, of the types that the tool's schema says. A value of unknown type is JSON if
// it reads as such, else text. Strings are passed on as they come, others when they are complete.
class TagArguments final : public ArgumentReader {
 public:
  TagArguments(const ToolDialect& dialect, const ToolSet& tools, std::string_view tool)
      : dialect_(dialect), tools_(tools), tool_(tool) {}
  Step feed(char c, std::string& out) override;
  bool certain() const override { return certain_; }
  void finish(std::string& out) override;

 private:
  enum class Place : std::uint8_t { kBetween, kKey, kValueBegin, kValue };

  Step between(char c, std::string& out);
  Step key(char c, std::string& out);
  Step begin_value(char c, std::string& out);
  Step value(char c, std::string& out);
  void open_value(std::string& out);
  void add_text(char c, std::string& out);
  void close_value(std::string& out);
  bool mark(char c, std::string_view whole, Step& step);

  const ToolDialect& dialect_;
  const ToolSet& tools_;
  std::string tool_;
  Place place_ = Place::kBetween;
  bool certain_ = false;
  bool any_ = false;
  std::string key_;
  std::string held_;   // the beginning of a mark
  std::string whole_;  // a value that is not handed on before its end
  std::uint8_t types_ = 0;
  bool streams_ = false;
  bool at_start_ = true;  // of the value
};

// Python's literals (kPython: key=value, ...) and Gemma's (kBraces: key:value,...}), with their
// closing bracket.
class LiteralArguments final : public ArgumentReader {
 public:
  static constexpr std::size_t kMaxDepth = 256;
  static constexpr std::size_t kMaxWordBytes = 4096;

  explicit LiteralArguments(const ToolDialect& dialect)
      : python_(dialect.arguments == ArgumentForm::kPython), mark_(dialect.string_mark) {
    open_.push_back(Frame::kCall);
  }
  Step feed(char c, std::string& out) override;
  bool certain() const override { return certain_; }
  void finish(std::string& out) override;

 private:
  enum class Frame : std::uint8_t { kCall, kMap, kList, kTuple };
  enum class Place : std::uint8_t {
    kItemOrEnd,
    kItem,
    kKey,
    kAfterKey,
    kValue,
    kWord,
    kQuoted,
    kMarked,
    kAfter,
  };

  Step item(char c, std::string& out);
  Step key(char c, std::string& out);
  Step after_key(char c, std::string& out);
  Step value(char c, std::string& out);
  Step word(char c, std::string& out);
  Step quoted(char c, std::string& out);
  Step marked(char c, std::string& out);
  Step after(char c, std::string& out);
  Step open(Frame frame, std::string& out);
  Step close(char c, std::string& out);
  void begin_key(std::string& out);
  void end_string(std::string& out);
  Step bad();
  bool has_keys() const { return open_.back() == Frame::kCall || open_.back() == Frame::kMap; }
  bool convert_word(std::string& out) const;

  bool python_;
  std::string_view mark_;
  std::vector<Frame> open_;
  Place place_ = Place::kItemOrEnd;
  bool begun_ = false;
  bool certain_ = false;
  bool is_key_ = false;  // of the string that is read; of a bare key: it is not the first
  std::string word_;     // a key, a word or a number, until its end
  std::string held_;     // the beginning of a mark
  QuotedString string_{'"', /*python=*/true};
};

// The reader of a dialect's arguments. Borrows both.
std::unique_ptr<ArgumentReader> new_argument_reader(const ToolDialect& dialect, CallForm form,
                                                    const ToolSet& tools, std::string_view tool);

}  // namespace quire
