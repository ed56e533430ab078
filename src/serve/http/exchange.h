// One request and its answer: what a route's handler is given. A handler answers from any thread,
// at once or later, either whole or as a stream:
//
//   exchange->respond({.status = 200, .body = text});
//
//   exchange->start_stream({.content_type = "text/event-stream"});
//   exchange->write("data: ...\n\n");    // as often as it likes
//   exchange->finish();
//
// What is written waits in a bounded buffer until the client reads it. A client that lets it
// overflow, or goes away, is disconnected: later calls do nothing, and the handler of
// on_disconnect() is told, once, so that it can abort what it has begun.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "serve/http/message.h"

namespace quire {

class RequestObserver;

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;

  // The whole answer. A second answer is a bug and is ignored.
  virtual void respond(HttpResponse response) = 0;

  // An answer whose length is not known yet; `head.body` is its first piece. Server-sent events
  // that wait get keep-alive comments by themselves.
  virtual void start_stream(HttpResponse head) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void finish() = 0;
  // Bytes written that the connection has not begun to send: more than a moment's worth means that
  // the client is slow. Any thread.
  virtual std::size_t unsent_bytes() const = 0;

  // `gone` is called once if the client goes away, or is dropped, before the answer's end; at once
  // where that has happened already. On the I/O thread: it must not block. Set at most once.
  virtual void on_disconnect(std::function<void()> gone) = 0;

  // Whether the client has gone, for work that takes long before it answers. Any thread.
  virtual bool gone() const { return false; }

  // Who follows this request through the engine (serve/requests/request_observer.h); null for
  // nobody.
  virtual std::shared_ptr<RequestObserver> observer() const { return nullptr; }
};

using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace quire
