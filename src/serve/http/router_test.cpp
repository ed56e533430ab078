#include "serve/http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/http/gate.h"
#include "serve/http/target.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Router some_routes() {
  Router router;
  router.add({.method = "GET", .pattern = "/health", .handler = {}, .access = RouteAccess::kOpen});
  router.add({.method = "GET", .pattern = "/v1/files/{id}", .handler = {}});
  router.add({.method = "DELETE", .pattern = "/v1/files/{id}", .handler = {}});
  router.add({.method = "POST", .pattern = "/v1/batches/{id}/cancel", .handler = {}});
  return router;
}

TEST(Router, FindsRoutesAndTheirParameters) {
  const Router router = some_routes();
  EXPECT_EQ(router.match("GET", "/health").route->pattern, "/health");
  EXPECT_EQ(router.match("HEAD", "/health").route->pattern, "/health");
  const auto match = router.match("POST", "/v1/batches/b1/cancel");
  ASSERT_NE(match.route, nullptr);
  EXPECT_THAT(match.path_params, ElementsAre(Pair("id", "b1")));
}

TEST(Router, TellsAWrongMethodFromAWrongPath) {
  const Router router = some_routes();
  const auto method = router.match("PUT", "/v1/files/x");
  EXPECT_EQ(method.route, nullptr);
  EXPECT_THAT(method.allowed_methods, ElementsAre("GET", "DELETE"));
  for (const char* path : {"/v1/files", "/v1/files/", "/v1/files/a/b", "/healthy", "/", "health",
                           "/v1/batches//cancel"}) {
    const auto match = router.match("GET", path);
    EXPECT_EQ(match.route, nullptr) << path;
    EXPECT_TRUE(match.allowed_methods.empty()) << path;
  }
}

TEST(Target, IsDecoded) {
  const auto target = parse_target("/v1/files/a%20b?limit=3&after=x%26y&flag&empty=#part");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/v1/files/a b");
  EXPECT_THAT(target->query, ElementsAre(Pair("limit", "3"), Pair("after", "x&y"), Pair("flag", ""),
                                         Pair("empty", "")));
}

TEST(Target, MayBeAWholeUrl) {
  const auto target = parse_target("http://box.example:8000/v1/models?limit=3");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->authority, "box.example:8000");
  EXPECT_EQ(target->path, "/v1/models");
  EXPECT_THAT(target->query, ElementsAre(Pair("limit", "3")));
  EXPECT_EQ(parse_target("HTTPS://[::1]")->path, "/");
  EXPECT_EQ(parse_target("http://a?b=c")->authority, "a");
  EXPECT_EQ(parse_target("/http://a/")->authority, std::nullopt);
}

TEST(Target, RefusesTraversalControlCharactersAndBrokenEscapes) {
  for (const char* target :
       {"", "v1", "ftp://host/", "http:/a", "http://host/../a", "*", "/a/../b", "/..",
        "/a/%2e%2e/b", "/./a", "/a%00b", "/a%0d%0aX: y", "/a%", "/a%2", "/a%zz", "/a%-1"}) {
    EXPECT_FALSE(parse_target(target).has_value()) << target;
  }
}

HttpRequest request(std::string method, std::string path, std::vector<HttpHeader> headers) {
  HttpRequest made;
  made.method = std::move(method);
  made.path = std::move(path);
  made.headers = std::move(headers);
  return made;
}

// The status of the refusal, or 0.
int refusal(const HttpRequest& made, const AccessPolicy& access, bool has_body = false) {
  const Router router = some_routes();
  const Admission admission = admit(made, has_body, router, access);
  return admission.refusal ? admission.refusal->status : 0;
}

TEST(Access, DnsRebindingIsRefusedOnLoopback) {
  const AccessPolicy access(/*loopback=*/true, {"box.example"}, {}, {});
  for (const char* host : {"localhost:8000", "127.0.0.1:8000", "127.8.8.8", "[::1]:8000",
                           "LOCALHOST", "box.example:8000", "app.localhost"}) {
    EXPECT_EQ(refusal(request("GET", "/health", {{"Host", host}}), access), 0) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example",
                           "", "[::2]", "169.254.169.254", "box.example.evil"}) {
    EXPECT_EQ(refusal(request("GET", "/health", {{"Host", host}}), access), 403) << host;
  }
  EXPECT_EQ(refusal(request("GET", "/health", {}), access), 403);
  const AccessPolicy open(/*loopback=*/false, {}, {}, {});
  EXPECT_EQ(refusal(request("GET", "/health", {{"Host", "any.example"}}), open), 0);
}

TEST(Access, CrossSiteRequestsAreRefused) {
  const AccessPolicy access(true, {}, {"https://page.example"}, {});
  const auto from = [&](const char* origin) {
    return refusal(request("GET", "/health", {{"Host", "localhost:8000"}, {"Origin", origin}}),
                   access);
  };
  EXPECT_EQ(from("http://localhost:8000"), 0);
  EXPECT_EQ(from("https://page.example"), 0);
  EXPECT_EQ(from("https://evil.example"), 403);
  EXPECT_EQ(from("http://localhost:9000"), 403);
  EXPECT_EQ(from("null"), 403);
}

TEST(Access, PagesOfThisMachineMayCallUnlessOriginsAreNamed) {
  const AccessPolicy access(true, {}, {}, {});
  const auto from = [](const AccessPolicy& policy, const char* origin) {
    return refusal(request("GET", "/health", {{"Host", "localhost:8000"}, {"Origin", origin}}),
                   policy);
  };
  for (const char* origin :
       {"http://localhost:3000", "https://127.0.0.1", "http://[::1]:1", "http://app.localhost"}) {
    EXPECT_EQ(from(access, origin), 0) << origin;
  }
  for (const char* origin : {"http://localhost.evil.example", "null", "file://", "ftp://localhost",
                             "http://10.0.0.1", "http://"}) {
    EXPECT_EQ(from(access, origin), 403) << origin;
  }
  const AccessPolicy open(/*loopback=*/false, {}, {}, {});
  EXPECT_EQ(from(open, "http://localhost:3000"), 403);
}

TEST(Access, TheKeyMayComeInItsOwnHeader) {
  const AccessPolicy access(true, {}, {}, {"secret"});
  const auto with = [&](std::vector<HttpHeader> headers) {
    headers.push_back({"Host", "localhost"});
    return refusal(request("GET", "/v1/files/x", std::move(headers)), access);
  };
  EXPECT_EQ(with({{"X-Api-Key", "secret"}}), 0);
  EXPECT_EQ(with({{"x-api-key", "secret"}, {"Authorization", "Bearer EMPTY"}}), 0);
  EXPECT_EQ(with({{"X-Api-Key", "secrets"}}), 401);
  EXPECT_EQ(with({{"X-Api-Key", ""}}), 401);
  EXPECT_EQ(with({{"X-Api-Key", "Bearer secret"}}), 401);
}

TEST(Router, SlashesRootPathAndVersionMayVary) {
  Router router = some_routes();
  router.add({.method = "GET", .pattern = "/v1/models/{model...}", .handler = {}});
  router.set_root_path("/quire");
  for (const char* path : {"/v1/files/x", "/files/x", "/v1/files/x/", "//v1///files/x",
                           "/quire/v1/files/x", "/quire/files/x/"}) {
    EXPECT_NE(router.match("GET", path).route, nullptr) << path;
  }
  for (const char* path : {"/quirev1/files/x", "/quire", "/v2/files/x", "v1/files/x"}) {
    EXPECT_EQ(router.match("GET", path).route, nullptr) << path;
  }
  const auto match = router.match("GET", "/v1/models/org/name");
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.path_params.front().second, "org/name");
  EXPECT_EQ(router.match("GET", "/v1/models/").route, nullptr);
}

TEST(Router, AnUnknownPathNamesTheNearest) {
  Router router = some_routes();
  router.add({.method = "POST", .pattern = "/v1/chat/completions", .handler = {}});
  EXPECT_EQ(router.nearest_to("/v1/chat/completion"), "/v1/chat/completions");
  EXPECT_EQ(router.nearest_to("/chat/completion"), "/v1/chat/completions");
  EXPECT_EQ(router.nearest_to("/heath"), "/health");
  EXPECT_EQ(router.nearest_to("/something/else"), std::nullopt);
  const auto refused = admit(request("GET", "/heath", {{"Host", "localhost"}}), false, router,
                             AccessPolicy(true, {}, {}, {}));
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_NE(refused.refusal->body.find("did you mean /health?"), std::string::npos);
}

TEST(Access, OnlyAJsonContentTypeIsTaken) {
  const AccessPolicy access(true, {}, {}, {});
  const auto with = [&](std::vector<HttpHeader> headers) {
    headers.push_back({"Host", "localhost"});
    return refusal(request("POST", "/v1/batches/b/cancel", std::move(headers)), access, true);
  };
  EXPECT_EQ(with({{"Content-Type", "application/json"}}), 0);
  EXPECT_EQ(with({{"Content-Type", "Application/JSON ; charset=utf-8"}}), 0);
  EXPECT_EQ(with({{"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(with({{"Content-Type", "application/x-www-form-urlencoded"}}), 415);
  EXPECT_EQ(with({}), 415);
}

TEST(Access, CodedContentIsRefused) {
  const AccessPolicy access(true, {}, {}, {});
  const auto with = [&](std::vector<HttpHeader> headers, bool has_body = true) {
    headers.push_back({"Host", "localhost"});
    headers.push_back({"Content-Type", "application/json"});
    return refusal(request("POST", "/v1/batches/b/cancel", std::move(headers)), access, has_body);
  };
  EXPECT_EQ(with({{"Content-Encoding", "Identity"}}), 0);
  EXPECT_EQ(with({{"Content-Encoding", ""}}), 0);
  EXPECT_EQ(with({{"Content-Encoding", "gzip"}}, false), 0);
  for (const char* coding : {"gzip", "identity, gzip", "deflate", "br", "\x01"}) {
    EXPECT_EQ(with({{"Content-Encoding", coding}}), 415) << coding;
  }
  EXPECT_EQ(with({{"Content-Encoding", "identity"}, {"content-encoding", "gzip"}}), 415);
}

TEST(Access, EveryRouteButTheOpenOnesNeedsTheKey) {
  const AccessPolicy access(true, {}, {}, {"secret", "other"});
  const Router router = some_routes();
  for (const Route& route : router.routes()) {
    const int expected = route.pattern == "/health" ? 0 : 401;
    for (const char* key :
         {"", "Bearer ", "Bearer secre", "Bearer secrets", "secret", "Basic secret"}) {
      const auto made =
          request(route.method, route.pattern, {{"Host", "localhost"}, {"Authorization", key}});
      EXPECT_EQ(refusal(made, access), expected) << route.pattern << " with " << key;
    }
    for (const char* key : {"Bearer secret", "bearer other"}) {
      const auto made =
          request(route.method, route.pattern, {{"Host", "localhost"}, {"Authorization", key}});
      EXPECT_EQ(refusal(made, access), 0) << route.pattern;
    }
  }
}

TEST(Access, PreflightIsAnsweredForAllowedOriginsOnly) {
  const AccessPolicy access(true, {}, {"*"}, {"secret"});
  const auto made =
      request("OPTIONS", "/v1/files/x", {{"Host", "localhost"}, {"Origin", "https://any.example"}});
  const Router router = some_routes();
  const Admission admission = admit(made, false, router, access);
  ASSERT_TRUE(admission.refusal.has_value());
  EXPECT_EQ(admission.refusal->status, 204);
  EXPECT_EQ(admission.cors_headers.front().value, "https://any.example");
}

TEST(RequestId, HasAStrictGrammar) {
  EXPECT_TRUE(valid_request_id("a-b_c.1:2"));
  for (const char* id : {"", "a b", "a\r\nX: y", "a/b", "é"}) EXPECT_FALSE(valid_request_id(id));
  EXPECT_FALSE(valid_request_id(std::string(129, 'a')));
}

}  // namespace
}  // namespace quire
