#include "apps/chat/tools/chat_function.h"

#include <fmt/format.h>

namespace quire {

Status too_much_output(const FunctionLimits& limits) {
  return Status::resource_exhausted(
      fmt::format("the result has more than {} bytes, and none of it was taken",
                  limits.max_output_bytes),
      "--max-tool-output allows more");
}

Status took_too_long(const FunctionLimits& limits) {
  return Status::unavailable(fmt::format("it took longer than {} s and was ended",
                                         static_cast<double>(limits.timeout.count()) / 1e3),
                             "--tool-timeout allows more");
}

Status stopped_by_user() { return {StatusCode::kCancelled, "the user has stopped it"}; }

}  // namespace quire
