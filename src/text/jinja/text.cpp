#include "text/jinja/text.h"

#include <algorithm>
#include <utility>

namespace quire::jinja {

Text::Text(std::string bytes, bool is_template) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), is_template});
}

void Text::append(std::string_view bytes, bool is_template) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().is_template == is_template) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), is_template});
  }
}

void Text::append(const Text& other) { append_part(other, 0, other.size()); }

std::size_t Text::run_at(std::size_t position) const {
  const auto it =
      std::upper_bound(runs_.begin(), runs_.end(), position,
                       [](std::size_t value, const Run& run) { return value < run.end; });
  return static_cast<std::size_t>(it - runs_.begin());
}

void Text::append_part(const Text& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const std::string_view all = other.view();
  for (std::size_t i = other.run_at(begin); begin < end; ++i) {
    const std::size_t stop = std::min(end, other.runs_[i].end);
    append(all.substr(begin, stop - begin), other.runs_[i].is_template);
    begin = stop;
  }
}

Text Text::substr(std::size_t begin, std::size_t end) const {
  Text out;
  out.append_part(*this, begin, std::min(end, size()));
  return out;
}

bool Text::is_template_at(std::size_t position) const {
  return runs_[run_at(position)].is_template;
}

bool Text::all_template() const {
  return runs_.empty() || (runs_.size() == 1 && runs_[0].is_template);
}

std::vector<TextSegment> Text::segments() const {
  std::vector<TextSegment> out;
  out.reserve(runs_.size());
  for_each_run([&](std::string_view bytes, bool is_template) {
    out.push_back({std::string(bytes), is_template});
  });
  return out;
}

}  // namespace quire::jinja
