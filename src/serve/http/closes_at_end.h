// What ends a connection together with a coroutine of it.
#pragma once

#include "serve/http/connection.h"

namespace quire {

// Closes the connection when the coroutine in which it lies is gone. One that lacks memory for its
// next wait ends without an exception: its frame is destroyed.
class ClosesAtEnd {
 public:
  explicit ClosesAtEnd(Connection& connection) : connection_(&connection) {}
  ~ClosesAtEnd() {
    if (connection_ != nullptr) connection_->close();
  }
  ClosesAtEnd(const ClosesAtEnd&) = delete;
  ClosesAtEnd& operator=(const ClosesAtEnd&) = delete;
  void dismiss() { connection_ = nullptr; }

 private:
  Connection* connection_;
};

}  // namespace quire
