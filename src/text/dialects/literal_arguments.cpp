#include <algorithm>

#include <fmt/format.h>

#include "text/dialects/argument_reader.h"

namespace quire {
namespace {

bool is_of_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number as Python writes it, as JSON does; false where it is none.
bool append_number(std::string_view word, std::string& out) {
  std::string text;
  std::size_t i = 0;
  if (word.front() == '+' || word.front() == '-') {
    if (word.front() == '-') text += '-';
    i = 1;
  }
  std::size_t digits = 0;
  const auto take_digits = [&] {
    std::size_t count = 0;
    for (; i < word.size() && (is_digit(word[i]) || (word[i] == '_' && count > 0)); ++i) {
      if (word[i] == '_') continue;
      text += word[i];
      ++count;
    }
    return count;
  };
  const std::size_t start = text.size();
  digits = take_digits();
  if (digits > 1 && text[start] == '0') return false;  // JSON and Python have no 007
  if (digits == 0) text += '0';
  if (i < word.size() && word[i] == '.') {
    ++i;
    text += '.';
    const std::size_t fraction = take_digits();
    if (fraction == 0) text += '0';
    digits += fraction;
  }
  if (digits == 0) return false;
  if (i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
    text += 'e';
    ++i;
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) text += word[i++];
    if (take_digits() == 0) return false;
  }
  if (i != word.size()) return false;
  out += text;
  return true;
}

}  // namespace

ArgumentReader::Step LiteralArguments::bad() {
  rest_ = word_ + held_;
  if (place_ == Place::kQuoted) rest_ += string_.pending();
  return Step::kBad;
}

ArgumentReader::Step LiteralArguments::feed(char c, std::string& out) {
  switch (place_) {
    case Place::kItemOrEnd:
    case Place::kItem:
      return item(c, out);
    case Place::kKey:
      return key(c, out);
    case Place::kAfterKey:
      return after_key(c, out);
    case Place::kValue:
      return value(c, out);
    case Place::kWord:
      return word(c, out);
    case Place::kQuoted:
      return quoted(c, out);
    case Place::kMarked:
      return marked(c, out);
    case Place::kAfter:
      return after(c, out);
  }
  return bad();
}

// The next item of what is open, or its end. A comma before the end is allowed, as in Python.
ArgumentReader::Step LiteralArguments::item(char c, std::string& out) {
  if (is_json_space(c) && held_.empty()) return Step::kMore;
  if (held_.empty() && (c == ')' || c == ']' || c == '}')) return close(c, out);
  if (!has_keys()) {
    if (place_ == Place::kItem && held_.empty()) out += ", ";
    place_ = Place::kValue;
    return value(c, out);
  }
  const bool bare = open_.back() == Frame::kCall || !python_;
  if (bare && held_.empty() && is_of_key(c)) {
    word_.assign(1, c);
    is_key_ = place_ == Place::kItem;  // whether a comma goes before it
    place_ = Place::kKey;
    return Step::kMore;
  }
  const bool quote = python_ ? open_.back() == Frame::kMap && (c == '"' || c == '\'') : false;
  if (quote) {
    begin_key(out);
    string_ = QuotedString(c, /*python=*/true);
    word_.clear();
    is_key_ = true;
    place_ = Place::kQuoted;
    return Step::kMore;
  }
  if (!python_ && !mark_.empty() && mark_.starts_with(held_ + c)) {
    held_ += c;
    if (held_ != mark_) return Step::kMore;
    held_.clear();
    begin_key(out);
    is_key_ = true;
    place_ = Place::kMarked;
    return Step::kMore;
  }
  return bad();
}

// A comma where the key is not the first, and its quote.
void LiteralArguments::begin_key(std::string& out) {
  if (!begun_) out += '{';
  begun_ = true;
  if (place_ == Place::kItem) out += ", ";
  out += '"';
}

ArgumentReader::Step LiteralArguments::key(char c, std::string& out) {
  if (is_of_key(c) && word_.size() < kMaxWordBytes) {
    word_ += c;
    return Step::kMore;
  }
  const bool separates = c == (python_ ? '=' : ':');
  if (!separates && !is_json_space(c)) return bad();
  if (!separates) {  // white space, which may stand before the sign
    place_ = Place::kAfterKey;
    return Step::kMore;
  }
  return after_key(c, out);
}

ArgumentReader::Step LiteralArguments::after_key(char c, std::string& out) {
  if (is_json_space(c)) return Step::kMore;
  const bool of_call = open_.back() == Frame::kCall;
  if (c != (python_ && of_call ? '=' : ':')) return bad();
  if (!word_.empty()) {  // a bare key, which is written only now
    place_ = is_key_ ? Place::kItem : Place::kItemOrEnd;
    begin_key(out);
    append_json_escaped(out, word_);
    out += '"';
    word_.clear();
  }
  out += ": ";
  certain_ = true;
  place_ = Place::kValue;
  return Step::kMore;
}

ArgumentReader::Step LiteralArguments::open(Frame frame, std::string& out) {
  if (open_.size() == kMaxDepth) return bad();
  open_.push_back(frame);
  out += frame == Frame::kMap ? '{' : '[';
  place_ = Place::kItemOrEnd;
  return Step::kMore;
}

ArgumentReader::Step LiteralArguments::close(char c, std::string& out) {
  const Frame frame = open_.back();
  const char wanted = frame == Frame::kCall   ? (python_ ? ')' : '}')
                      : frame == Frame::kMap  ? '}'
                      : frame == Frame::kList ? ']'
                                              : ')';
  if (c != wanted) return bad();
  open_.pop_back();
  if (open_.empty()) {
    if (!begun_) out += '{';
    begun_ = certain_ = true;
    out += '}';
    return Step::kDone;
  }
  out += frame == Frame::kMap ? '}' : ']';
  place_ = Place::kAfter;
  return Step::kMore;
}

ArgumentReader::Step LiteralArguments::value(char c, std::string& out) {
  if (!held_.empty() || (!mark_.empty() && mark_.front() == c)) {
    if (!mark_.starts_with(held_ + c)) return bad();
    held_ += c;
    if (held_ != mark_) return Step::kMore;
    held_.clear();
    out += '"';
    is_key_ = false;
    place_ = Place::kMarked;
    return Step::kMore;
  }
  if (is_json_space(c)) return Step::kMore;
  if (c == '{') return open(Frame::kMap, out);
  if (c == '[') return open(Frame::kList, out);
  if (c == '(' && python_) return open(Frame::kTuple, out);
  if (c == '"' || c == '\'') {
    string_ = QuotedString(c, /*python=*/true);
    out += '"';
    is_key_ = false;
    place_ = Place::kQuoted;
    return Step::kMore;
  }
  if (c == ')' || c == ']' || c == '}' || c == ',' || c == ':' || c == '=') return bad();
  word_.assign(1, c);
  place_ = Place::kWord;
  return Step::kMore;
}

bool LiteralArguments::convert_word(std::string& out) const {
  if (word_ == "True" || word_ == "true") {
    out += "true";
  } else if (word_ == "False" || word_ == "false") {
    out += "false";
  } else if (word_ == "None" || word_ == "null") {
    out += "null";
  } else {
    return append_number(word_, out);
  }
  return true;
}

// Gemma's models leave out the marks of a string now and then: then it is what stands there.
ArgumentReader::Step LiteralArguments::word(char c, std::string& out) {
  const bool ends = c == ',' || c == ')' || c == ']' || c == '}' || (python_ && is_json_space(c)) ||
                    (python_ && c == ':');
  if (!ends) {
    if (word_.size() == kMaxWordBytes) return bad();
    word_ += c;
    return Step::kMore;
  }
  while (!python_ && is_json_space(word_.back())) word_.pop_back();
  if (!convert_word(out)) {
    if (python_) return bad();
    out += '"';
    append_json_escaped(out, word_);
    out += '"';
  }
  word_.clear();
  place_ = Place::kAfter;
  return after(c, out);
}

ArgumentReader::Step LiteralArguments::quoted(char c, std::string& out) {
  std::string piece;
  const QuotedString::Step step = string_.feed(c, piece);
  if (step == QuotedString::Step::kBad) return bad();
  append_json_escaped(out, piece);
  if (step == QuotedString::Step::kDone) end_string(out);
  return Step::kMore;
}

ArgumentReader::Step LiteralArguments::marked(char c, std::string& out) {
  held_ += c;
  while (!held_.empty() && !mark_.starts_with(held_)) {
    append_json_escaped(out, held_.front());
    held_.erase(0, 1);
  }
  if (held_ != mark_) return Step::kMore;
  held_.clear();
  end_string(out);
  return Step::kMore;
}

void LiteralArguments::end_string(std::string& out) {
  out += '"';
  place_ = is_key_ ? Place::kAfterKey : Place::kAfter;
}

ArgumentReader::Step LiteralArguments::after(char c, std::string& out) {
  if (is_json_space(c)) return Step::kMore;
  if (c == ')' || c == ']' || c == '}') return close(c, out);
  if (c != ',') return bad();
  place_ = Place::kItem;
  return Step::kMore;
}

void LiteralArguments::finish(std::string& out) {
  if (place_ == Place::kWord && !convert_word(out)) out += word_;
  if (place_ == Place::kMarked) append_json_escaped(out, held_);
  if (place_ == Place::kQuoted) append_json_escaped(out, string_.pending());
  word_.clear();
  held_.clear();
}

}  // namespace quire
