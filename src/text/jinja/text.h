// A string that remembers where each of its bytes came from: the template (or the host), or the
// inputs of a render. Every string operation of the interpreter is made of append() and substr(),
// so that provenance survives joining, slicing, stripping, replacing and the like; bytes that an
// operation adds (quotes, digits, padding) count as input, to be on the safe side.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_segment.h"

namespace quire::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool is_template);

  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  // Bytes of memory: of the text and of what it remembers about it.
  std::size_t weight() const { return bytes_.size() + runs_.size() * sizeof(Run); }
  void reserve(std::size_t size) { bytes_.reserve(size); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, bool is_template);
  void append(const Text& other);
  // Appends bytes [begin, end) of `other`, which must not be this text.
  void append_part(const Text& other, std::size_t begin, std::size_t end);
  Text substr(std::size_t begin, std::size_t end) const;  // bytes [begin, end)
  bool is_template_at(std::size_t position) const;        // position < size()
  // Whether all of it, or none of it, is template text; an empty text counts as template.
  bool all_template() const;

  // Walks the runs of equal provenance: f(std::string_view, bool is_template).
  template <typename F>
  void for_each_run(F&& f) const {
    std::size_t begin = 0;
    for (const Run& run : runs_) {
      f(std::string_view(bytes_).substr(begin, run.end - begin), run.is_template);
      begin = run.end;
    }
  }

  std::vector<TextSegment> segments() const;

 private:
  struct Run {
    std::size_t end;
    bool is_template;
  };
  std::size_t run_at(std::size_t position) const;  // index of the run with the byte

  std::string bytes_;
  std::vector<Run> runs_;  // ascending ends, alternating provenance; empty for an empty text
};

}  // namespace quire::jinja
