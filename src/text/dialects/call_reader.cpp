#include "text/dialects/call_reader.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

constexpr int kPartOfMark = -1;
constexpr int kNoMark = -2;

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/';
}

// "functions.NAME:NUMBER" to NAME.
std::string name_of_id(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  const std::size_t colon = id.rfind(':');
  const bool numbered = colon != std::string_view::npos && colon + 1 < id.size() &&
                        id.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return std::string(numbered ? id.substr(0, colon) : id);
}

}  // namespace

void CallReader::open(std::string_view mark, CallTrust trust) {
  trust_ = trust;
  bare_ = mark.empty();
  in_list_ = false;
  num_calls_ = 0;
  taken_.clear();
  word_.clear();
  begin_call();
  // Where the mark is a call's own, which stands without the section's.
  phase_ = !bare_ && mark == dialect_.name_begin ? Phase::kName : Phase::kOpen;
}

CallReader::Step CallReader::feed(char c) {
  if (phase_ != Phase::kArguments || !certain_) taken_ += c;
  if (taken_.size() > kMaxHeldBytes) return Step::kNotIt;
  switch (run(c)) {
    case Turn::kEnd:
      return Step::kEnd;
    case Turn::kNotIt:
      return Step::kNotIt;
    case Turn::kMore:
    case Turn::kAgain:
      break;
  }
  return Step::kMore;
}

std::string CallReader::finish() {
  if (phase_ == Phase::kArguments && certain_) {
    piece_.clear();
    reader_->finish(piece_);
    if (!piece_.empty()) sink_.arguments(piece_);
    sink_.end();
    taken_.clear();
  }
  // The beginning of a mark behind a call, cut off.
  const bool cut = !word_.empty() && (phase_ == Phase::kBetween || phase_ == Phase::kEnd);
  if (cut && num_calls_ > 0) taken_.clear();
  return std::exchange(taken_, {});
}

CallReader::Turn CallReader::run(char c) {
  Turn result = Turn::kAgain;
  while (result == Turn::kAgain) result = turn(c);
  return result;
}

CallReader::Turn CallReader::turn(char c) {
  switch (phase_) {
    case Phase::kOpen:
      return open_byte(c);
    case Phase::kCall:
      begin_call();
      phase_ = dialect_.call_begin.empty() ? header() : Phase::kCallBegin;
      return Turn::kAgain;
    case Phase::kCallBegin: {
      const int found = follow(c, {dialect_.call_begin});
      if (found == 0) phase_ = header();
      return found == kNoMark ? Turn::kNotIt : Turn::kMore;
    }
    case Phase::kNameBegin: {
      const int found = follow(c, {dialect_.name_begin});
      if (found == 0) phase_ = Phase::kName;
      return found == kNoMark ? Turn::kNotIt : Turn::kMore;
    }
    case Phase::kName:
      return name_byte(c);
    case Phase::kNameEnd:
      return name_end_byte(c);
    case Phase::kId:
      if (is_of_name(c) && id_.size() < kMaxNameBytes) {
        id_ += c;
        return Turn::kMore;
      }
      phase_ = Phase::kNameEnd;
      return Turn::kAgain;
    case Phase::kObject:
      if (is_json_space(c)) return Turn::kMore;
      phase_ = Phase::kKey;
      return c == '{' ? Turn::kMore : Turn::kNotIt;
    case Phase::kKey:
      return key_byte(c);
    case Phase::kKeyText:
      return key_text_byte(c);
    case Phase::kColon:
      if (is_json_space(c)) return Turn::kMore;
      return c == ':' ? key_is_known() : Turn::kNotIt;
    case Phase::kNameValue:
      if (is_json_space(c)) return Turn::kMore;
      text_ = QuotedString('"', /*python=*/false);
      phase_ = Phase::kNameText;
      return c == '"' ? Turn::kMore : Turn::kNotIt;
    case Phase::kNameText:
      return name_text_byte(c);
    case Phase::kSkip:
      return skip_byte(c);
    case Phase::kArguments:
      return arguments_byte(c);
    case Phase::kAfterValue:
      return after_value_byte(c);
    case Phase::kBetween:
      return between_byte(c);
    case Phase::kEnd: {
      const int found = follow(c, {dialect_.end});
      if (found == kPartOfMark) return Turn::kMore;
      return found == 0 ? Turn::kEnd : Turn::kNotIt;
    }
  }
  return Turn::kNotIt;
}

int CallReader::follow(char c, std::initializer_list<std::string_view> marks) {
  if (word_.empty() && is_json_space(c)) return kPartOfMark;
  word_ += c;
  bool part = false;
  int index = 0;
  for (const std::string_view mark : marks) {
    if (!mark.empty() && mark == word_) {
      word_.clear();
      return index;
    }
    part = part || mark.starts_with(word_);
    ++index;
  }
  if (part) return kPartOfMark;
  word_.clear();
  return kNoMark;
}

void CallReader::begin_call() {
  name_.clear();
  id_.clear();
  has_name_ = has_arguments_ = certain_ = false;
  arguments_.clear();
  reader_ = nullptr;
}

CallReader::Phase CallReader::header() const {
  if (form() == CallForm::kObject) return Phase::kObject;
  return dialect_.name_begin.empty() ? Phase::kName : Phase::kNameBegin;
}

CallReader::Turn CallReader::open_byte(char c) {
  if (is_json_space(c)) return Turn::kMore;
  phase_ = Phase::kCall;
  if (c == '[' && dialect_.list != ListForm::kNever) {
    in_list_ = true;
    return Turn::kMore;
  }
  return dialect_.list == ListForm::kRequired ? Turn::kNotIt : Turn::kAgain;
}

CallReader::Turn CallReader::name_byte(char c) {
  if (name_.empty() && is_json_space(c)) return Turn::kMore;
  if (is_of_name(c)) {
    name_ += c;
    return name_.size() > kMaxNameBytes ? Turn::kNotIt : Turn::kMore;
  }
  if (dialect_.ids == IdRule::kAsWritten) {
    id_ = name_;
    name_ = name_of_id(name_);
  }
  if (!accepts_name()) return Turn::kNotIt;
  has_name_ = true;
  phase_ = Phase::kNameEnd;
  return Turn::kAgain;
}

bool CallReader::accepts_name() {
  if (name_.empty()) return false;
  return trust_ == CallTrust::kAny || tools_.empty() || tools_.has(name_);
}

CallReader::Turn CallReader::name_end_byte(char c) {
  const bool json = dialect_.arguments == ArgumentForm::kJson && word_.empty() && c == '{';
  if (dialect_.name_end.empty() || json) {
    begin_arguments();
    return Turn::kAgain;
  }
  const int found = follow(c, {dialect_.name_end, dialect_.id_mark});
  if (found == 0) begin_arguments();
  if (found == 1) phase_ = Phase::kId;
  return found == kNoMark ? Turn::kNotIt : Turn::kMore;
}

void CallReader::begin_arguments() {
  reader_ = new_argument_reader(dialect_, form(), tools_, name_);
  phase_ = Phase::kArguments;
}

void CallReader::become_certain() {
  certain_ = true;
  ++num_calls_;
  taken_.clear();
  sink_.call(name_, id_);
  if (!arguments_.empty()) sink_.arguments(arguments_);
}

CallReader::Turn CallReader::key_byte(char c) {
  if (is_json_space(c)) return Turn::kMore;
  if (c == '}') return object_end();
  key_.clear();
  text_ = QuotedString('"', /*python=*/false);
  phase_ = Phase::kKeyText;
  return c == '"' ? Turn::kMore : Turn::kNotIt;
}

CallReader::Turn CallReader::key_text_byte(char c) {
  const QuotedString::Step step = text_.feed(c, key_);
  if (step == QuotedString::Step::kBad || key_.size() > kMaxNameBytes) return Turn::kNotIt;
  if (step == QuotedString::Step::kDone) phase_ = Phase::kColon;
  return Turn::kMore;
}

// An object that only looks like a call has another key early on: it should not be kept back.
CallReader::Turn CallReader::key_is_known() {
  if (key_ == dialect_.name_key && !has_name_) {
    phase_ = Phase::kNameValue;
  } else if (!has_arguments_ &&
             std::ranges::find(dialect_.arguments_keys, key_) != dialect_.arguments_keys.end()) {
    begin_arguments();
  } else if (bare_ && !certain_ && key_ != "type" && key_ != "id") {
    return Turn::kNotIt;
  } else {
    skipped_ = JsonScanner();
    phase_ = Phase::kSkip;
  }
  return Turn::kMore;
}

CallReader::Turn CallReader::name_text_byte(char c) {
  const QuotedString::Step step = text_.feed(c, name_);
  if (step == QuotedString::Step::kBad || name_.size() > kMaxNameBytes) return Turn::kNotIt;
  if (step == QuotedString::Step::kMore) return Turn::kMore;
  if (!accepts_name()) return Turn::kNotIt;
  has_name_ = true;
  phase_ = Phase::kAfterValue;
  if (has_arguments_) {
    become_certain();
    sink_.end();
  }
  return Turn::kMore;
}

CallReader::Turn CallReader::skip_byte(char c) {
  const JsonScanner::Step step = skipped_.feed(c);
  if (step == JsonScanner::Step::kBad) return Turn::kNotIt;
  if (step == JsonScanner::Step::kMore) return Turn::kMore;
  phase_ = Phase::kAfterValue;
  return step == JsonScanner::Step::kDone ? Turn::kMore : Turn::kAgain;
}

CallReader::Turn CallReader::after_value_byte(char c) {
  if (is_json_space(c)) return Turn::kMore;
  if (c == '}') return object_end();
  phase_ = Phase::kKey;
  return c == ',' ? Turn::kMore : Turn::kNotIt;
}

// A call without arguments is one, too, where a mark says that it is a call.
CallReader::Turn CallReader::object_end() {
  if (!certain_) {
    if (!has_name_ || bare_) return Turn::kNotIt;
    arguments_ = "{}";
    become_certain();
    sink_.end();
  }
  taken_.clear();
  phase_ = Phase::kBetween;
  return Turn::kMore;
}

CallReader::Turn CallReader::arguments_byte(char c) {
  piece_.clear();
  const ArgumentReader::Step step = reader_->feed(c, piece_);
  if (step == ArgumentReader::Step::kBad && !certain_) return Turn::kNotIt;
  if (!certain_) {
    arguments_ += piece_;
    if (has_name_ && reader_->certain()) become_certain();
  } else if (!piece_.empty()) {
    sink_.arguments(piece_);
  }
  if (step == ArgumentReader::Step::kMore) return Turn::kMore;
  if (step == ArgumentReader::Step::kDone) return arguments_end();
  sink_.end();
  taken_ = std::string(reader_->rest()) + c;
  return Turn::kNotIt;
}

CallReader::Turn CallReader::arguments_end() {
  has_arguments_ = true;
  const std::string rest(reader_->rest());
  if (certain_) {
    sink_.end();
    taken_.clear();
  } else if (!rest.empty()) {
    return Turn::kNotIt;  // arguments that are none, before any name
  }
  phase_ = form() == CallForm::kObject && rest.empty() ? Phase::kAfterValue : Phase::kBetween;
  Turn result = Turn::kMore;
  for (std::size_t i = 0; i < rest.size() && result == Turn::kMore; ++i) {
    taken_ += rest[i];
    result = run(rest[i]);
  }
  return result;
}

// Behind a call: what may close it or its section, or open the next one.
CallReader::Turn CallReader::between_byte(char c) {
  if (word_.empty() && !is_json_space(c)) {
    if (in_list_ && (c == ',' || c == ']')) {
      taken_.clear();
      in_list_ = c == ',';
      phase_ = in_list_ ? Phase::kCall : Phase::kEnd;
      return in_list_ || !dialect_.end.empty() ? Turn::kMore : Turn::kEnd;
    }
    const bool named = dialect_.call == CallForm::kNamed && dialect_.name_begin.empty();
    const bool next = dialect_.call_begin.empty() && !in_list_ &&
                      dialect_.list != ListForm::kRequired &&
                      (named ? is_of_name(c) : dialect_.call == CallForm::kObject && c == '{');
    if (next) {
      phase_ = Phase::kCall;
      return Turn::kAgain;
    }
  }
  const bool starts_with_name = dialect_.call_begin.empty() && !in_list_;
  const std::string_view name_begin = starts_with_name ? dialect_.name_begin : std::string_view();
  switch (follow(c, {dialect_.arguments_end, dialect_.call_end, dialect_.end, dialect_.separator,
                     dialect_.call_begin, name_begin})) {
    case kPartOfMark:
      return Turn::kMore;
    case 0:
    case 1:
      taken_.clear();
      return Turn::kMore;
    case 2:
      return Turn::kEnd;
    case 3:
      phase_ = Phase::kCall;
      return Turn::kMore;
    case 4:
      begin_call();
      phase_ = header();
      return Turn::kMore;
    case 5:
      begin_call();
      phase_ = Phase::kName;
      return Turn::kMore;
    default:
      return Turn::kNotIt;
  }
}

}  // namespace quire
