#include "serve/requests/rare_warning.h"

#include "base/log.h"

namespace quire {

void RareWarning::warn(std::string_view text) {
  if (due(Clock::now())) log_warning("{}", text);
}

bool RareWarning::due(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (last_ && now - *last_ < kPause) return false;
  last_ = now;
  return true;
}

}  // namespace quire
