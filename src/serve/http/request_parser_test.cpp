#include "serve/http/request_parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using State = RequestParser::State;

// Feeds `text` in pieces of `piece` bytes, as a connection does, until the parser is done or fails.
void feed(RequestParser& parser, const std::string& text, std::size_t piece) {
  std::string waiting;
  std::size_t next = 0;
  while (parser.state() != State::kDone && parser.state() != State::kError) {
    const std::size_t used = parser.feed(waiting);
    waiting.erase(0, used);
    if (used > 0 || parser.state() == State::kHeaderDone) continue;
    if (next >= text.size()) return;
    waiting += text.substr(next, piece);
    next += piece;
  }
}

std::string post(const std::string& headers, const std::string& body) {
  return "POST /v1/completions?x=1 HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body;
}

TEST(RequestParser, TakesPiecesOfAnySize) {
  const std::string text = post("Content-Length: 11\r\nX-A: b\r\n", "hello world");
  for (const std::size_t piece : {1, 2, 7, 1000}) {
    RequestParser parser({});
    feed(parser, text, piece);
    ASSERT_EQ(parser.state(), State::kDone) << piece;
    const HttpRequest request = parser.take_request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/completions");
    EXPECT_EQ(request.body, "hello world");
    EXPECT_EQ(*request.header("x-a"), "b");
  }
}

TEST(RequestParser, TakesChunksOfOneAndOfSixBytes) {
  for (const std::size_t size : {1, 6}) {
    std::string body;
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      const std::string chunk(size, static_cast<char>('a' + i % 26));
      body += chunk;
      text += fmt::format("{:x}\r\n{}\r\n", size, chunk);
    }
    RequestParser parser({});
    feed(parser, post("Transfer-Encoding: chunked\r\n", text + "0\r\n\r\n"), 1000);
    ASSERT_EQ(parser.state(), State::kDone);
    EXPECT_EQ(parser.request().body, body);
  }
}

int error_of(const std::string& text, RequestLimits limits = {}) {
  RequestParser parser(limits);
  feed(parser, text, 4096);
  return parser.state() == State::kError ? parser.error_status() : 0;
}

TEST(RequestParser, RefusesBrokenChunkSizes) {
  for (const char* chunks :
       {"-2\r\nab\r\n0\r\n\r\n", "zz\r\nab\r\n", "0x2\r\nab\r\n", "ffffffffffffffffff\r\nab\r\n",
        "\r\nab\r\n", "2 \r\nab\r\n", "2\nab\r\n", "2\r\nabc\r\n"}) {
    EXPECT_EQ(error_of(post("Transfer-Encoding: chunked\r\n", chunks)), 400) << chunks;
  }
}

TEST(RequestParser, CountsTheBodyWhileItComes) {
  RequestLimits limits;
  limits.max_body_bytes = 100;
  EXPECT_EQ(error_of(post("Content-Length: 101\r\n", std::string(101, 'a')), limits), 413);
  std::string chunks;
  for (int i = 0; i < 11; ++i) chunks += "a\r\n0123456789\r\n";
  EXPECT_EQ(error_of(post("Transfer-Encoding: chunked\r\n", chunks), limits), 413);
  EXPECT_EQ(error_of(post("Content-Length: 100\r\n", std::string(100, 'a')), limits), 0);
}

TEST(RequestParser, RefusesAnAnnouncedBodyBeforeItComes) {
  RequestParser parser({});
  parser.feed(post("Content-Length: 4294967297\r\n", ""));
  ASSERT_EQ(parser.state(), State::kHeaderDone);
  parser.set_max_body_bytes(1000);
  EXPECT_EQ(parser.state(), State::kError);
  EXPECT_EQ(parser.error_status(), 413);
}

TEST(RequestParser, BoundsHeaders) {
  EXPECT_EQ(error_of(post("X-Long: " + std::string(20'000, 'a') + "\r\n", "")), 431);
  std::string headers;
  for (int i = 0; i < 101; ++i) headers += fmt::format("X-{}: a\r\n", i);
  EXPECT_EQ(error_of(post(headers, "")), 431);
  EXPECT_EQ(error_of("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n"), 431);
}

TEST(RequestParser, RefusesSmuggling) {
  EXPECT_EQ(error_of(post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd")), 400);
  EXPECT_EQ(error_of(post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
            400);
  EXPECT_EQ(error_of(post("Content-Length: -1\r\n", "")), 400);
  EXPECT_EQ(error_of(post("Bad Header: x\r\n", "")), 400);
  EXPECT_EQ(error_of("GET /a\r\nHTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(error_of("GET /../etc HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(error_of("\x16\x03\x01\x02"), 400);
}

std::string get(const std::string& headers, const std::string& version = "1.1") {
  return "GET /v1/models HTTP/" + version + "\r\n" + headers + "\r\n";
}

TEST(RequestParser, TakesOneWellFormedHost) {
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:8000", "[::1]", "[::1]:8000", "",
                           "a_b.example", "xn--bcher-kva.example:1", "localhost:"}) {
    EXPECT_EQ(error_of(get(fmt::format("Host: {}\r\n", host))), 0) << host;
  }
  for (const char* host : {"localhost:80@evil.com", "localhost@evil.com", "a b", "a/b", "a:b",
                           "[::1", "::1", "a:80:80", "a:123456", "a,b", "http://a", "[a]", "a%zz",
                           "\"a\"", "a\x80", ":80", "a?b", "a#b", "[127.0.0.1]"}) {
    const int expected = std::string_view(host) == "a,b" ? 0 : 400;  // a comma may be in a name
    EXPECT_EQ(error_of(get(fmt::format("Host: {}\r\n", host))), expected) << host;
  }
}

TEST(RequestParser, RefusesTwoHostsAndNone) {
  EXPECT_EQ(error_of(get("Host: localhost\r\nHost: localhost\r\n")), 400);
  EXPECT_EQ(error_of(get("Host: localhost\r\nX-A: b\r\nhost: evil.example\r\n")), 400);
  EXPECT_EQ(error_of(get("X-A: b\r\n")), 400);
  EXPECT_EQ(error_of(get("", "1.0")), 0);  // which knew no Host
  EXPECT_EQ(error_of(get("Host: a\r\nHost: a\r\n", "1.0")), 400);
}

TEST(RequestParser, TakesOneWellFormedOrigin) {
  const auto with = [](const std::string& origins) {
    return error_of(get("Host: localhost\r\n" + origins));
  };
  for (const char* origin : {"null", "http://localhost:8000", "https://[::1]:80", "file://",
                             "chrome-extension://abcdef"}) {
    EXPECT_EQ(with(fmt::format("Origin: {}\r\n", origin)), 0) << origin;
  }
  for (const char* origin : {"", "localhost", "http://localhost:80@evil.com", "http://a/b", "://a",
                             "http://a http://b", "1http://a", "http://a:b", "Null"}) {
    EXPECT_EQ(with(fmt::format("Origin: {}\r\n", origin)), 400) << origin;
  }
  EXPECT_EQ(with("Origin: http://localhost\r\nOrigin: http://localhost\r\n"), 400);
}

TEST(RequestParser, TakesNoCodingButChunked) {
  for (const char* codings :
       {"Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n", "Transfer-Encoding: \r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: chunked,\r\n"}) {
    const int status = error_of(post(codings, "0\r\n\r\n"));
    EXPECT_TRUE(status == 501 || status == 400) << codings << ": " << status;
  }
  EXPECT_EQ(error_of(post("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n")), 0);
  EXPECT_EQ(error_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(RequestParser, RefusesControlCharactersBehindAChunkSize) {
  for (const char c : {'\0', '\1', '\b', '\x1b', '\x7f'}) {
    const std::string bad(1, c);
    EXPECT_EQ(error_of(post("Transfer-Encoding: chunked\r\n", "2;a" + bad + "\r\nab\r\n0\r\n\r\n")),
              400);
    EXPECT_EQ(error_of(post("Transfer-Encoding: chunked\r\n", "0\r\nA: b" + bad + "\r\n\r\n")),
              400);
  }
  EXPECT_EQ(error_of(post("Transfer-Encoding: chunked\r\n", "2;a=\"b\tc\"\r\nab\r\n0\r\n\r\n")), 0);
}

TEST(RequestParser, AWholeUrlAsTargetReplacesTheHost) {
  for (const std::size_t piece : {1, 1000}) {
    RequestParser parser({});
    feed(parser, "GET http://box.example:80/v1/models?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
         piece);
    ASSERT_EQ(parser.state(), State::kDone);
    EXPECT_EQ(parser.request().path, "/v1/models");
    ASSERT_EQ(parser.request().all_headers("Host").size(), 1U);
    EXPECT_EQ(*parser.request().header("Host"), "box.example:80");
  }
  EXPECT_EQ(error_of("GET http://a/ HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(error_of("GET http://a/ HTTP/1.1\r\n\r\n"), 400);  // a Host there has to be
  for (const char* authority : {"", "localhost:80@evil.com", "user@localhost", "a:b", "[::1"}) {
    EXPECT_EQ(error_of(fmt::format("GET http://{}/ HTTP/1.1\r\nHost: a\r\n\r\n", authority)), 400)
        << authority;
  }
}

TEST(RequestParser, PassesOverAFewEmptyLinesBeforeARequest) {
  for (const std::size_t piece : {1, 2, 3, 1000}) {
    RequestParser parser({});
    feed(parser, "\r\n\r\n" + get("Host: localhost\r\n"), piece);
    EXPECT_EQ(parser.state(), State::kDone) << piece;
    RequestParser endless({});
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "\r\n";
    feed(endless, lines + get("Host: localhost\r\n"), piece);
    EXPECT_EQ(endless.error_status(), 400) << piece;
  }
  EXPECT_EQ(error_of("\n" + get("Host: localhost\r\n")), 400);
  EXPECT_EQ(error_of("\rX" + get("Host: localhost\r\n")), 400);
}

TEST(RequestParser, HoldsNoMoreThanTwiceWhatHasCome) {
  RequestParser parser({});
  std::string text = post("Content-Length: 1000000\r\n", "");
  text.erase(0, parser.feed(text));
  ASSERT_EQ(parser.state(), State::kHeaderDone);
  const std::string piece(4096, 'a');
  parser.feed(piece);
  EXPECT_LE(parser.request().body.capacity(), 2 * piece.size());
  for (std::size_t left = 1'000'000 - piece.size(); left > 0;) {
    left -= parser.feed(std::string_view(piece).substr(0, std::min(left, piece.size())));
    ASSERT_LE(parser.request().body.capacity(), 2 * parser.request().body.size());
  }
  EXPECT_EQ(parser.state(), State::kDone);
  parser.drop_body();
  EXPECT_LT(parser.request().body.capacity(), 100U);
}

TEST(RequestParser, LeavesTheNextRequest) {
  const std::string one = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
  std::string both = one + "GET /b HTTP/1.1\r\nHost: x\r\n\r\n";
  RequestParser parser({});
  both.erase(0, parser.feed(both));
  ASSERT_EQ(parser.state(), State::kHeaderDone);
  EXPECT_EQ(parser.feed(both), 0U);
  EXPECT_EQ(parser.state(), State::kDone);
  EXPECT_EQ(both, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
}

}  // namespace
}  // namespace quire
