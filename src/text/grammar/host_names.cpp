#include "text/grammar/host_names.h"

#include <algorithm>
#include <string>

#include "text/grammar/idna.h"
#include "text/grammar/punycode.h"

namespace quire {
namespace {

constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMaxName = 253;
constexpr std::string_view kPrefix = "xn--";
constexpr char32_t kAdded = 0xE4;  // a letter that composes with nothing

bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }

bool is_letter_or_digit(char c) { return is_small_letter(c) || (c >= '0' && c <= '9'); }

char small(std::uint8_t byte) {
  const char c = static_cast<char>(byte);
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The digits that make `basic` and them a valid A-label, from left to right.
std::string completing_digits(std::string_view basic) {
  std::u32string label(basic.begin(), basic.end());
  bool added = false;
  const auto add = [&](std::size_t place) {
    label.insert(place, 1, kAdded);
    added = true;
  };
  if (basic.empty() || !is_small_letter(basic.front())) add(0);
  if (label.size() > 3 && label[2] == '-' && label[3] == '-') add(2);
  if (!added || (!basic.empty() && basic.back() == '-')) add(label.size());
  return encode_punycode(label).substr(basic.empty() ? 0 : basic.size() + 1);
}

std::optional<LabelDirection> check_a_label(std::string_view behind_prefix) {
  const std::optional<std::u32string> label = decode_punycode(behind_prefix);
  return label ? check_u_label(*label) : std::nullopt;
}

// A place in a name. Of labels but A-labels, only what the rest depends on is kept.
struct NamePlace {
  bool has_right_to_left = false;  // a label before
  bool has_unruly = false;         // a label before that must not stand beside such a one
  bool is_a_label = false;
  bool begins_with_digit = false;
  bool ends_with_hyphen = false;
  std::uint8_t of_prefix = 0;      // so many characters of kPrefix are all there is
  std::uint8_t label = 0;          // characters of the label
  std::uint8_t name = 0;           // of the name up to here
  std::string_view behind_prefix;  // of an A-label

  explicit NamePlace(std::string_view state) {
    const auto bits = static_cast<unsigned char>(state[0]);
    has_right_to_left = (bits & 1U) != 0;
    has_unruly = (bits & 2U) != 0;
    is_a_label = (bits & 4U) != 0;
    begins_with_digit = (bits & 8U) != 0;
    ends_with_hyphen = (bits & 16U) != 0;
    of_prefix = static_cast<std::uint8_t>(bits >> 5);
    label = static_cast<std::uint8_t>(state[1]);
    name = static_cast<std::uint8_t>(state[2]);
    behind_prefix = state.substr(3);
  }

  // With `more` behind what is behind the prefix.
  std::string state(std::string_view more = {}) const {
    const unsigned bits = (has_right_to_left ? 1U : 0U) | (has_unruly ? 2U : 0U) |
                          (is_a_label ? 4U : 0U) | (begins_with_digit ? 8U : 0U) |
                          (ends_with_hyphen ? 16U : 0U) | unsigned{of_prefix} << 5;
    std::string bytes = {static_cast<char>(bits), static_cast<char>(label),
                         static_cast<char>(name)};
    bytes += behind_prefix;
    bytes += more;
    return bytes;
  }

  void count_character() {
    ++label;
    ++name;
  }
};

class HostNames final : public OpenAutomaton {
 public:
  std::string start() const override { return std::string(3, '\0'); }

  std::optional<std::string> next(std::string_view state, std::uint8_t byte) const override {
    NamePlace place(state);
    const char c = small(byte);
    if (c == '.') return next_label(place);
    if (!is_letter_or_digit(c) && c != '-') return std::nullopt;
    return place.is_a_label ? within_a_label(place, c) : within_label(place, c);
  }

  bool accepts(std::string_view state) const override { return ends(NamePlace(state)).has_value(); }

  std::string way_out(std::string_view state) const override {
    const NamePlace place(state);
    if (!place.is_a_label) return ends(place) ? "" : "a";
    const std::string text = a_label_completion(place.behind_prefix);
    NamePlace at = place;
    std::string begun(place.behind_prefix);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      at.behind_prefix = begun;
      if (ends(at)) return text.substr(0, i);
      if (i < text.size()) begun += text[i];
    }
    return text;
  }

  std::uint32_t max_way_out() const override { return kALabelRoom; }

  std::string_view alphabet() const override {
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
  }

  std::uint32_t free_bytes(std::string_view state) const override {
    const NamePlace place(state);
    if (!place.is_a_label) return 0;
    const std::size_t of_label = kMaxALabel - std::min<std::size_t>(kMaxALabel, place.label);
    const std::size_t most = kMaxName - kALabelRoom;
    const std::size_t of_name = most - std::min<std::size_t>(most, place.name);
    return static_cast<std::uint32_t>(std::min(of_label, of_name));
  }

  bool is_free(std::uint8_t byte) const override {
    return is_letter_or_digit(small(byte)) || byte == '-';
  }

 private:
  // Where the name may end: what the label is.
  static std::optional<LabelDirection> ends(const NamePlace& place) {
    if (!place.is_a_label) {
      if (place.label == 0 || place.ends_with_hyphen) return std::nullopt;
      return place.begins_with_digit ? LabelDirection::kUnruly : LabelDirection::kLeftToRight;
    }
    const std::optional<LabelDirection> label = check_a_label(place.behind_prefix);
    if (label == LabelDirection::kRightToLeft && place.has_unruly) return std::nullopt;
    if (label == LabelDirection::kUnruly && place.has_right_to_left) return std::nullopt;
    return label;
  }

  static std::optional<std::string> next_label(NamePlace place) {
    if (place.name + std::size_t{2} > kMaxName) return std::nullopt;
    const std::optional<LabelDirection> label = ends(place);
    if (!label) return std::nullopt;
    NamePlace next(std::string(3, '\0'));
    next.has_right_to_left = place.has_right_to_left || label == LabelDirection::kRightToLeft;
    next.has_unruly = place.has_unruly || label == LabelDirection::kUnruly;
    next.name = static_cast<std::uint8_t>(place.name + 1);
    next.behind_prefix = {};
    return next.state();
  }

  static std::optional<std::string> within_label(NamePlace place, char c) {
    const bool hyphen = c == '-';
    // Behind a hyphen one more character has to come.
    const std::size_t more = hyphen ? 2 : 1;
    if (place.label + more > kMaxLabel || place.name + more > kMaxName) return std::nullopt;
    if (hyphen && place.label == 0) return std::nullopt;
    const bool of_prefix = place.of_prefix == place.label && c == kPrefix[place.of_prefix];
    if (hyphen && place.ends_with_hyphen && place.label == 3) {
      // Other labels with two hyphens there are reserved (RFC 5890, section 2.3.1).
      if (!of_prefix || place.name + 1 + kALabelRoom > kMaxName) return std::nullopt;
      place.is_a_label = true;
    }
    const bool digit = !hyphen && !is_small_letter(c);
    if (digit && place.label == 0) {
      if (place.has_right_to_left) return std::nullopt;
      place.begins_with_digit = true;
    }
    place.of_prefix =
        of_prefix && !place.is_a_label ? static_cast<std::uint8_t>(place.label + 1) : 0;
    place.ends_with_hyphen = hyphen && !place.is_a_label;
    place.count_character();
    return place.state();
  }

  std::optional<std::string> within_a_label(NamePlace place, char c) const {
    if (free_bytes(place.state()) == 0) {
      const std::string way = ends(place) ? "" : a_label_completion(place.behind_prefix);
      if (way.empty() || way[0] != c) return std::nullopt;
    }
    place.count_character();
    return place.state(std::string_view(&c, 1));
  }
};

}  // namespace

const std::shared_ptr<const OpenAutomaton>& host_names() {
  static const std::shared_ptr<const OpenAutomaton> names = std::make_shared<HostNames>();
  return names;
}

std::string a_label_completion(std::string_view begun) {
  const std::size_t hyphen = begun.rfind('-');
  const bool is_delimiter = hyphen != 0 && hyphen != std::string_view::npos;
  if (is_delimiter || hyphen == std::string_view::npos) {
    const std::string_view basic = is_delimiter ? begun.substr(0, hyphen) : std::string_view();
    const std::string_view digits = is_delimiter ? begun.substr(hyphen + 1) : begun;
    const std::string all = completing_digits(basic);
    if (digits.size() < all.size() && all.starts_with(digits)) return all.substr(digits.size());
  }
  return "-" + completing_digits(begun);
}

}  // namespace quire
