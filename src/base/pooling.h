// How the final hidden states of a prompt's tokens become one vector.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

// The numbers are written to event logs.
enum class Pooling : std::uint8_t {
  kNone,  // no vector is wanted
  kLast,  // the last token's
  kCls,   // the first token's
  kMean,  // the mean of all
};

constexpr std::string_view pooling_name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kNone:
      return "none";
    case Pooling::kLast:
      return "last";
    case Pooling::kCls:
      return "cls";
    case Pooling::kMean:
      return "mean";
  }
  return "unknown";
}

// Whether the state of the token at `position` of so many is used.
constexpr bool pools(Pooling pooling, std::int32_t position, std::int32_t num_tokens) {
  switch (pooling) {
    case Pooling::kNone:
      return false;
    case Pooling::kLast:
      return position == num_tokens - 1;
    case Pooling::kCls:
      return position == 0;
    case Pooling::kMean:
      return true;
  }
  return false;
}

}  // namespace quire
