// Languages of bytes whose automata have too many states to be listed: states are values that are
// made as texts come to them (open_states.h). What a Dfa can be is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Immutable; any thread. States are opaque and equal where their bytes are. From each, some text
// leads to the end: whatever next() gives can be completed.
class OpenAutomaton {
 public:
  virtual ~OpenAutomaton() = default;

  // Does not accept.
  virtual std::string start() const = 0;
  virtual std::optional<std::string> next(std::string_view state, std::uint8_t byte) const = 0;
  virtual bool accepts(std::string_view state) const = 0;

  // A text that leads from a state that does not accept to one that does, through none before it,
  // of at most max_way_out() bytes; what is left of it behind its first byte is the next state's.
  // Empty where the state accepts.
  virtual std::string way_out(std::string_view state) const = 0;
  virtual std::uint32_t max_way_out() const = 0;

  // The bytes of its texts, each once.
  virtual std::string_view alphabet() const = 0;

  // So many bytes that are is_free() may follow, whichever they are; 0 if not any.
  virtual std::uint32_t free_bytes(std::string_view state) const = 0;
  virtual bool is_free(std::uint8_t byte) const = 0;

  // Whether it has the text.
  bool matches(std::string_view text) const;
};

}  // namespace quire
