#include "apps/token_view.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <utf8proc.h>

#include "text/utf8.h"

namespace quire {
namespace {

// Black on two pastels of the 256-colour palette, and a third for control tokens.
constexpr std::array<std::string_view, 2> kBackgrounds = {"\x1b[38;5;16;48;5;153m",
                                                          "\x1b[38;5;16;48;5;222m"};
constexpr std::string_view kControl = "\x1b[1;38;5;16;48;5;217m";
constexpr std::string_view kFaint = "\x1b[2m";
constexpr std::string_view kReset = "\x1b[0m";

// Controls, formats (joiners, direction marks), separators, private and unassigned.
bool is_hidden(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

// Two lines that grow together.
class Rows {
 public:
  Rows(int width, bool color) : width_(width), color_(color) {}

  void add(const VisibleText& text, std::string_view style, const std::string& id) {
    const int cell = std::max(text.width, static_cast<int>(id.size()));
    if (used_ > 0 && used_ + cell > width_) end_line();
    const auto pad = [cell](int width) {
      return std::string(static_cast<std::size_t>(cell - width + 1), ' ');
    };
    texts_ += color_ ? fmt::format("{}{}{}", style, text.text, kReset) : text.text;
    texts_ += pad(text.width);
    ids_ += color_ ? fmt::format("{}{}{}", kFaint, id, kReset) : id;
    ids_ += pad(static_cast<int>(id.size()));
    used_ += cell + 1;
  }

  void end_line() {
    if (used_ == 0) return;
    for (std::string* row : {&texts_, &ids_}) {
      row->erase(row->find_last_not_of(' ') + 1);
      out_ += *row + '\n';
      row->clear();
    }
    used_ = 0;
  }

  std::string finish() {
    end_line();
    return std::move(out_);
  }

 private:
  int width_;
  bool color_;
  int used_ = 0;
  std::string texts_;
  std::string ids_;
  std::string out_;
};

}  // namespace

VisibleText visible_text(std::string_view bytes) {
  VisibleText visible;
  const auto add = [&](std::string_view text, int width) {
    visible.text += text;
    visible.width += width;
  };
  const auto add_ascii = [&](const std::string& text) { add(text, static_cast<int>(text.size())); };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = symbol_size(bytes, at);
    const std::string_view symbol = bytes.substr(at, size);
    const Utf8Char c = decode_utf8(bytes, at);
    at += size;
    if (!c.valid) {
      add_ascii(fmt::format("<0x{:02X}>", static_cast<unsigned char>(symbol[0])));
    } else if (c.code == ' ') {
      add("·", 1);
    } else if (c.code == '\n') {
      add("↵", 1);
    } else if (c.code == '\t') {
      add("→", 1);
    } else if (is_hidden(c.code)) {
      add_ascii(c.code < 0x80 ? fmt::format("<0x{:02X}>", static_cast<unsigned>(c.code))
                              : fmt::format("<U+{:04X}>", static_cast<unsigned>(c.code)));
    } else {
      add(symbol, utf8proc_charwidth(static_cast<utf8proc_int32_t>(c.code)));
    }
  }
  return visible;
}

std::string token_rows(const Tokenizer& tokenizer, std::span<const TokenId> ids, int width,
                       bool color) {
  Rows rows(width, color);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool control = tokenizer.is_special(ids[i]);
    const std::string_view bytes =
        control ? tokenizer.token_text(ids[i]) : tokenizer.token_bytes(ids[i]);
    rows.add(visible_text(bytes), control ? kControl : kBackgrounds[i % 2],
             fmt::format("{}{}", ids[i], control ? "*" : ""));
    if (bytes.ends_with('\n')) rows.end_line();
  }
  return rows.finish();
}

std::string token_counts(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::size_t bytes = 0;
  std::size_t control = 0;
  for (const TokenId id : ids) {
    if (tokenizer.is_special(id)) {
      ++control;
    } else {
      bytes += tokenizer.token_bytes(id).size();
    }
  }
  const std::size_t plain = ids.size() - control;
  std::string line = fmt::format("{} {}", ids.size(), ids.size() == 1 ? "token" : "tokens");
  if (control > 0) line += fmt::format(" ({} control, marked *)", control);
  line += fmt::format(", {} bytes of text", bytes);
  if (plain > 0) {
    line += fmt::format(", {:.1f} bytes a token",
                        static_cast<double>(bytes) / static_cast<double>(plain));
  }
  return line;
}

std::string as_control(std::string_view text, bool color) {
  return color ? fmt::format("{}{}{}", kControl, text, kReset) : std::string(text);
}

}  // namespace quire
