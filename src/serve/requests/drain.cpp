#include "serve/requests/drain.h"

namespace quire {

Status Drain::check_open() const {
  if (!draining_) return {};
  return Status::unavailable("the server is shutting down", "send the request to another one");
}

}  // namespace quire
