#include <utility>

#include "base/json.h"
#include "text/dialects/argument_reader.h"

namespace quire {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;
constexpr int kMaxValueDepth = 256;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// The JSON of a value that is no string; empty where the text is none of `types` (0: of any).
std::string typed_value(std::string_view text, std::uint8_t types) {
  const auto may_be = [types](ParameterType type) { return types == 0 || (types & type) != 0; };
  text = trimmed(text);
  // As Python prints them: templates do.
  if (text == "True" || text == "False") {
    return may_be(kBooleanType) ? (text == "True" ? "true" : "false") : "";
  }
  if (text == "None") return may_be(kNullType) ? "null" : "";
  return parse_json(text, "value", kMaxValueDepth).ok() ? std::string(text) : "";
}

}  // namespace

// Follows a mark; `step` is what to return while it is not complete, or if it is none.
bool TagArguments::mark(char c, std::string_view whole, Step& step) {
  held_ += c;
  if (!whole.starts_with(held_)) {
    rest_ = held_.substr(0, held_.size() - 1);
    step = Step::kBad;
    return false;
  }
  step = Step::kMore;
  if (held_.size() < whole.size()) return false;
  held_.clear();
  return true;
}

ArgumentReader::Step TagArguments::feed(char c, std::string& out) {
  switch (place_) {
    case Place::kBetween:
      return between(c, out);
    case Place::kKey:
      return key(c, out);
    case Place::kValueBegin:
      return begin_value(c, out);
    case Place::kValue:
      return value(c, out);
  }
  return Step::kBad;
}

ArgumentReader::Step TagArguments::between(char c, std::string& out) {
  if (held_.empty() && is_json_space(c)) return Step::kMore;
  held_ += c;
  const bool key = dialect_.key_begin.starts_with(held_);
  const bool end = dialect_.call_end.starts_with(held_);
  if (!key && !end) {
    rest_ = held_.substr(0, held_.size() - 1);
    return Step::kBad;
  }
  if (held_ == dialect_.call_end) {
    if (!certain_) out += '{';
    certain_ = true;
    out += '}';
    return Step::kDone;
  }
  if (held_ == dialect_.key_begin) {
    held_.clear();
    key_.clear();
    place_ = Place::kKey;
  }
  return Step::kMore;
}

ArgumentReader::Step TagArguments::key(char c, std::string& out) {
  key_ += c;
  if (key_.size() > kMaxKeyBytes) {
    rest_ = key_.substr(0, key_.size() - 1);
    return Step::kBad;
  }
  if (!key_.ends_with(dialect_.key_end)) return Step::kMore;
  key_.resize(key_.size() - dialect_.key_end.size());
  types_ = tools_.types(tool_, key_);
  place_ = Place::kValueBegin;
  if (dialect_.value_begin.empty()) open_value(out);
  return Step::kMore;
}

ArgumentReader::Step TagArguments::begin_value(char c, std::string& out) {
  if (held_.empty() && is_json_space(c)) return Step::kMore;
  Step step = Step::kMore;
  if (mark(c, dialect_.value_begin, step)) open_value(out);
  return step;
}

void TagArguments::open_value(std::string& out) {
  if (!certain_) out += '{';
  certain_ = true;
  if (any_) out += ", ";
  any_ = true;
  out += '"';
  append_json_escaped(out, trimmed(key_));
  out += "\": ";
  streams_ = (types_ & kStringType) != 0 && (types_ & kNullType) == 0;
  if (streams_) out += '"';
  whole_.clear();
  at_start_ = true;
  place_ = Place::kValue;
}

void TagArguments::add_text(char c, std::string& out) {
  const bool first = std::exchange(at_start_, false);
  if (first && c == '\n' && dialect_.value_lines) return;
  if (streams_) {
    append_json_escaped(out, c);
  } else {
    whole_ += c;
  }
}

// A line feed before the end mark is the mark's, where values have lines of their own.
ArgumentReader::Step TagArguments::value(char c, std::string& out) {
  held_ += c;
  const std::string_view end = dialect_.value_end;
  while (!held_.empty()) {
    std::string_view rest = held_;
    if (dialect_.value_lines && rest.front() == '\n') rest.remove_prefix(1);
    if (rest == end) {
      held_.clear();
      close_value(out);
      return Step::kMore;
    }
    if (end.starts_with(rest)) return Step::kMore;
    add_text(held_.front(), out);
    held_.erase(0, 1);
  }
  return Step::kMore;
}

void TagArguments::close_value(std::string& out) {
  place_ = Place::kBetween;
  if (streams_) {
    out += '"';
    return;
  }
  std::string value;
  const bool may_be_text = (types_ & kStringType) != 0;
  if (!may_be_text || trimmed(whole_) == "null" || trimmed(whole_) == "None") {
    value = typed_value(whole_, types_);
  }
  if (!value.empty()) {
    out += value;
    return;
  }
  out += '"';
  append_json_escaped(out, whole_);
  out += '"';
}

void TagArguments::finish(std::string& out) {
  if (place_ != Place::kValue) return;
  if (streams_) {
    append_json_escaped(out, held_);
  } else {
    out += whole_ + held_;
  }
  held_.clear();
}

}  // namespace quire
