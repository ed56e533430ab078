// Why a request ended.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

enum class FinishReason : std::uint8_t {
  kStop,    // an end-of-sequence or stop token id; a pooling request's prompt is computed
  kLength,  // max_tokens or max_model_len
  kAbort,   // the client went away, or a stop string matched
};
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "abort"

}  // namespace quire
