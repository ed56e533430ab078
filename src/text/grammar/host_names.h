// Host names (RFC 1123, section 2.1) whose labels may be internationalized ones as they travel:
// A-labels (RFC 5890), "xn--" and Punycode (RFC 3492), valid by RFC 5891 to 5893.
//
// What an A-label says depends on all of it, so that an automaton of bytes would need a state for
// nearly each beginning. But each beginning can be completed: whatever letters, digits and hyphens
// stand behind "xn--", with a hyphen they become the ASCII characters of a label, to which one or
// two letters are added at places where they make it valid. So while room for that is left, any of
// these bytes may follow, and only where the label ends is it decoded.
//
// The languages are exact but for length: no A-label has more than kMaxALabel characters (63 are
// possible), nor ends so close to the name's 253, except those that such a completion gives.
#pragma once

#include <memory>
#include <string_view>

#include "text/grammar/open_automaton.h"

namespace quire {

// What is kept free for a completion.
inline constexpr std::size_t kALabelRoom = 7;
inline constexpr std::size_t kMaxALabel = 63 - kALabelRoom;

// Always the same one.
const std::shared_ptr<const OpenAutomaton>& host_names();

// Behind "xn--" and `begun`, letters, digits and hyphens: what makes it a valid A-label that may
// stand in any name, at most kALabelRoom bytes. It is the rest of a text that was begun so, if it
// was.
std::string a_label_completion(std::string_view begun);

}  // namespace quire
