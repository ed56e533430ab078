// Any bytes as a host name, and as what stands behind "xn--": each beginning that is allowed can be
// ended, and what Punycode decodes to encodes to the same.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/host_names.h"
#include "text/grammar/idna.h"
#include "text/grammar/punycode.h"

namespace {

std::string small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

// As far as it is the beginning of one; whether it is one.
bool follow_name(std::string_view text) {
  const quire::OpenAutomaton& names = *quire::host_names();
  std::string state = names.start();
  bool whole = true;
  for (const char c : text) {
    const std::optional<std::string> behind = names.next(state, static_cast<std::uint8_t>(c));
    whole = behind.has_value();
    if (!whole) break;
    state = *behind;
  }
  whole = whole && names.accepts(state);
  const std::string way = names.way_out(state);
  if (way.size() > names.max_way_out()) std::abort();
  for (const char c : way) {
    const std::optional<std::string> behind = names.next(state, static_cast<std::uint8_t>(c));
    if (!behind) std::abort();
    state = *behind;
  }
  if (!names.accepts(state)) std::abort();
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  follow_name(text);
  constexpr std::size_t kMost = quire::kMaxALabel - 4;
  const std::string behind = small_letters(text.substr(0, kMost));
  const std::optional<std::u32string> label = quire::decode_punycode(behind);
  const bool is_label = label && quire::check_u_label(*label);
  if (is_label && quire::encode_punycode(*label) != behind) std::abort();
  const bool is_one = behind.find('.') == std::string::npos;
  if (is_one && follow_name("xn--" + behind) != is_label) std::abort();
  return 0;
}
