// A request on its way from its connection to its handler.
#pragma once

#include <memory>

#include "serve/http/connection.h"
#include "serve/http/pending_answer.h"
#include "serve/http/router.h"

namespace quire {

// Counts an exchange while it goes on.
class CountedExchange {
 public:
  explicit CountedExchange(ConnectionShared& shared) : shared_(shared) {
    ++shared_.exchanges;
    ++shared_.exchanges_total;
  }
  ~CountedExchange() { --shared_.exchanges; }
  CountedExchange(const CountedExchange&) = delete;
  CountedExchange& operator=(const CountedExchange&) = delete;

 private:
  ConnectionShared& shared_;
};

// Has the handler of `route` answer, here or on a worker. What it throws becomes an error of the
// server, and so does that too many requests wait for a worker. I/O thread only.
void dispatch(ConnectionShared& shared, const Route& route,
              const std::shared_ptr<PendingAnswer>& pending);

}  // namespace quire
