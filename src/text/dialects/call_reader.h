// A section of calls, byte by byte, from behind its first mark. Internal to src/text/dialects.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "text/dialects/argument_reader.h"
#include "text/dialects/dialect.h"
#include "text/dialects/json_scanner.h"
#include "text/dialects/tool_set.h"

namespace quire {

// Receives the calls, one after the other: for each of them call(), then arguments() any number of
// times, then end().
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void call(std::string_view name, std::string_view written_id) = 0;
  virtual void arguments(std::string_view piece) = 0;
  virtual void end() = 0;
};

// What it may not read as a call, where a text could look like one by accident.
enum class CallTrust : std::uint8_t {
  kAny,    // a mark precedes: any name will do
  kKnown,  // only names of the request's tools, unless it has none
};

class CallReader {
 public:
  static constexpr std::size_t kMaxNameBytes = 256;
  // Of a call that is not yet certain, which is kept back.
  static constexpr std::size_t kMaxHeldBytes = std::size_t{1} << 16;

  enum class Step : std::uint8_t {
    kMore,
    kEnd,    // the section has ended with this byte
    kNotIt,  // what was read since the last certain call, taken(), and this byte are text
  };

  CallReader(const ToolDialect& dialect, const ToolSet& tools, CallSink& sink)
      : dialect_(dialect), tools_(tools), sink_(sink) {}

  // Begins a section. `mark` is what it began with; empty for one without.
  void open(std::string_view mark, CallTrust trust);
  Step feed(char c);
  // The text has ended within the section: returns the part of it that is text.
  std::string finish();

  // Bytes that are no part of a call; the mark that began the section is not among them.
  const std::string& taken() const { return taken_; }
  // Whether the section has had a call that was certain.
  bool any_calls() const { return num_calls_ > 0; }

 private:
  enum class Phase : std::uint8_t {
    kOpen,
    kCall,
    kCallBegin,
    kNameBegin,
    kName,
    kNameEnd,
    kId,
    kObject,
    kKey,
    kKeyText,
    kColon,
    kNameValue,
    kNameText,
    kSkip,
    kArguments,
    kAfterValue,
    kBetween,
    kEnd,
  };

  // Of one byte. kAgain: the phase has changed, and the byte is to be read in the new one.
  enum class Turn : std::uint8_t { kMore, kAgain, kEnd, kNotIt };

  Turn run(char c);
  Turn turn(char c);
  Turn open_byte(char c);
  Turn name_byte(char c);
  Turn name_end_byte(char c);
  Turn key_byte(char c);
  Turn key_text_byte(char c);
  Turn key_is_known();
  Turn name_text_byte(char c);
  Turn skip_byte(char c);
  Turn after_value_byte(char c);
  Turn object_end();
  Turn arguments_byte(char c);
  Turn arguments_end();
  Turn between_byte(char c);

  // Follows one of several marks, white space before it left out: the number of the one that is
  // complete, kPartOfMark or kNoMark.
  int follow(char c, std::initializer_list<std::string_view> marks);

  CallForm form() const { return in_list_ ? dialect_.listed : dialect_.call; }
  void begin_call();
  Phase header() const;
  bool accepts_name();
  void begin_arguments();
  void become_certain();

  const ToolDialect& dialect_;
  const ToolSet& tools_;
  CallSink& sink_;
  CallTrust trust_ = CallTrust::kAny;
  Phase phase_ = Phase::kOpen;
  bool in_list_ = false;
  bool bare_ = false;
  int num_calls_ = 0;
  std::string taken_;
  std::string word_;  // the beginning of a mark
  // Of the present call.
  std::string name_;
  std::string id_;
  std::string key_;
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool certain_ = false;
  std::string arguments_;  // before it is certain
  std::string piece_;      // of the arguments; reused
  std::unique_ptr<ArgumentReader> reader_;
  QuotedString text_{'"', /*python=*/false};
  JsonScanner skipped_;
};

}  // namespace quire
