#include "serve/http/dispatch.h"

#include <exception>
#include <new>

#include "base/exhaustion.h"
#include "base/log.h"
#include "serve/http/http_error.h"

namespace quire {

void dispatch(ConnectionShared& shared, const Route& route,
              const std::shared_ptr<PendingAnswer>& pending) {
  const auto call = [&handler = route.handler, pending] {
    if (pending->gone()) return;  // while it waited for a worker
    try {
      handler(pending);
    } catch (const std::bad_alloc&) {
      until_memory([&] { pending->fail(busy("this server is out of memory; try again later")); });
    } catch (const std::exception& exception) {
      log_warning("{}: {}", pending->request().path, exception.what());
      pending->fail(http_error(500, "internal error"));
    }
  };
  if (route.inline_handler) {
    call();
  } else if (!shared.run_on_worker(pending->request().body.size(), call)) {
    pending->respond(busy("too many requests wait to be read; try again later"));
  }
}

}  // namespace quire
