#include <algorithm>

#include "text/dialects/argument_reader.h"

namespace quire {

ArgumentReader::Step JsonArguments::start(char c, std::string& out) {
  if (is_json_space(c)) return Step::kMore;
  if (c == 'n') {
    place_ = Place::kNull;
    return Step::kMore;
  }
  if (c == '"') {
    place_ = Place::kText;
    return Step::kMore;
  }
  if (c != '{') return Step::kBad;
  place_ = Place::kObject;
  scanner_.feed(c);
  out += c;
  return Step::kMore;
}

ArgumentReader::Step JsonArguments::feed(char c, std::string& out) {
  switch (place_) {
    case Place::kStart:
      return start(c, out);
    case Place::kNull:
      if (c != null_.front()) return Step::kBad;
      null_.remove_prefix(1);
      if (!null_.empty()) return Step::kMore;
      place_ = Place::kObject;
      out += "{}";
      return Step::kDone;
    case Place::kObject: {
      if (static_cast<unsigned char>(c) < 0x20 && scanner_.in_string()) {
        append_json_escaped(out, c);
        return Step::kMore;
      }
      const JsonScanner::Step step = scanner_.feed(c);
      if (step == JsonScanner::Step::kBad) {
        place_ = Place::kRaw;
        return feed_raw(c, out);
      }
      out += c;
      return step == JsonScanner::Step::kDone ? Step::kDone : Step::kMore;
    }
    case Place::kText: {
      const std::size_t before = out.size();
      const QuotedString::Step step = text_.feed(c, out);
      any_text_ = any_text_ || out.size() > before;
      if (step == QuotedString::Step::kMore) return Step::kMore;
      if (step == QuotedString::Step::kBad) {
        out += text_.pending();
        place_ = Place::kRaw;
        return feed_raw(c, out);
      }
      if (!any_text_) out += "{}";
      return Step::kDone;
    }
    case Place::kRaw:
      return feed_raw(c, out);
  }
  return Step::kBad;
}

ArgumentReader::Step JsonArguments::feed_raw(char c, std::string& out) {
  held_ += c;
  while (!held_.empty()) {
    const auto begins = [this](std::string_view stop) { return stop.starts_with(held_); };
    if (std::ranges::any_of(stops_, begins)) {
      if (std::ranges::find(stops_, held_) == stops_.end()) return Step::kMore;
      rest_ = held_;
      held_.clear();
      return Step::kDone;
    }
    out += held_.front();
    held_.erase(0, 1);
  }
  return Step::kMore;
}

void JsonArguments::finish(std::string& out) {
  if (place_ == Place::kText) out += text_.pending();
  out += held_;
  held_.clear();
}

std::unique_ptr<ArgumentReader> new_argument_reader(const ToolDialect& dialect, CallForm form,
                                                    const ToolSet& tools, std::string_view tool) {
  if (form == CallForm::kNamed && dialect.arguments == ArgumentForm::kTags) {
    return std::make_unique<TagArguments>(dialect, tools, tool);
  }
  if (form == CallForm::kNamed && dialect.arguments != ArgumentForm::kJson) {
    return std::make_unique<LiteralArguments>(dialect);
  }
  return std::make_unique<JsonArguments>(
      JsonArguments::Stops{dialect.arguments_end, dialect.call_end, dialect.end});
}

}  // namespace quire
