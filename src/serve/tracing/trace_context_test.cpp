// The cases are those of the W3C's own test suite and of the specification's grammar.
#include "serve/tracing/trace_context.h"

#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace trace_context_test {

const std::string kTraceId = "12345678901234567890123456789012";
const std::string kSpanId = "1234567890123456";
const std::string kParent = "00-" + kTraceId + "-" + kSpanId + "-01";

TEST(TraceparentTest, ReadsWhatIsValid) {
  const auto context = parse_traceparent(kParent);
  ASSERT_TRUE(context);
  EXPECT_EQ(to_hex(context->trace_id), kTraceId);
  EXPECT_EQ(to_hex(context->span_id), kSpanId);
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(to_traceparent(*context), kParent);
  EXPECT_FALSE(parse_traceparent("00-" + kTraceId + "-" + kSpanId + "-00")->sampled());
}

TEST(TraceparentTest, WhiteSpaceAroundIsNoPartOfIt) {
  for (const std::string& text :
       {" " + kParent, "\t" + kParent, kParent + " ", kParent + "\t", "\t " + kParent + " \t"}) {
    EXPECT_TRUE(parse_traceparent(text)) << text;
  }
}

TEST(TraceparentTest, LaterVersionsAreReadAsFarAsTheyAreKnown) {
  const std::string future = "cc-" + kTraceId + "-" + kSpanId + "-01";
  EXPECT_TRUE(parse_traceparent(future));
  EXPECT_TRUE(parse_traceparent(future + "-what-the-future-will-be-like"));
  EXPECT_FALSE(parse_traceparent(future + ".what-the-future-will-be-like"));
}

TEST(TraceparentTest, FlagsThatAreNotKnownAreLeftOut) {
  EXPECT_EQ(parse_traceparent("00-" + kTraceId + "-" + kSpanId + "-ff")->flags, 0x03);
  EXPECT_EQ(parse_traceparent("00-" + kTraceId + "-" + kSpanId + "-fc")->flags, 0x00);
}

TEST(TraceparentTest, PassesOverEverythingElse) {
  const std::string tail = "-" + kSpanId + "-01";
  for (const std::string& text : {
           std::string(),
           std::string("00"),
           kParent + ".",
           kParent + "-what-the-future-will-be-like",
           "ff-" + kTraceId + tail,
           ".0-" + kTraceId + tail,
           "0.-" + kTraceId + tail,
           "000-" + kTraceId + tail,
           "0000-" + kTraceId + tail,
           "0-" + kTraceId + tail,
           "00-" + std::string(32, '0') + tail,
           "00-.2345678901234567890123456789012" + tail,
           "00-1234567890123456789012345678901." + tail,
           "00-ABCDEF78901234567890123456789012" + tail,
           "00-" + kTraceId + "3" + tail,
           "00-" + kTraceId.substr(1) + tail,
           "00-" + kTraceId + "-0000000000000000-01",
           "00-" + kTraceId + "-.234567890123456-01",
           "00-" + kTraceId + "-123456789012345.-01",
           "00-" + kTraceId + "-12345678901234567-01",
           "00-" + kTraceId + "-123456789012345-01",
           "00-" + kTraceId + "-" + kSpanId + "-.0",
           "00-" + kTraceId + "-" + kSpanId + "-0.",
           "00-" + kTraceId + "-" + kSpanId + "-0A",
           "00-" + kTraceId + "-" + kSpanId + "-001",
           "00-" + kTraceId + "-" + kSpanId + "-1",
           "00_" + kTraceId + "-" + kSpanId + "-01",
       }) {
    EXPECT_FALSE(parse_traceparent(text)) << text;
  }
}

TEST(TracestateTest, KeepsMembersInOrder) {
  EXPECT_EQ(parse_tracestate("foo=1,bar=2"), "foo=1,bar=2");
  EXPECT_EQ(parse_tracestate("foo=1 \t , \t bar=2, \t baz=3"), "foo=1,bar=2,baz=3");
  EXPECT_EQ(parse_tracestate("\t foo=1 \t"), "foo=1");
  EXPECT_EQ(parse_tracestate(""), "");
  EXPECT_EQ(parse_tracestate("foo=1,,,bar=2,"), "foo=1,bar=2");
}

TEST(TracestateTest, TakesEveryCharacterThatIsAllowed) {
  const std::string key = "abcdefghijklmnopqrstuvwxyz0123456789_-*/";
  std::string value;
  for (char c = 0x20; c <= 0x7E; ++c) {
    if (c != ',' && c != '=') value += c;
  }
  EXPECT_EQ(parse_tracestate(key + "=" + value), key + "=" + value);
  EXPECT_EQ(parse_tracestate(key + "@a-z0-9_-*/=" + value), key + "@a-z0-9_-*/=" + value);
  EXPECT_TRUE(parse_tracestate("0tenant@vendor=1"));
}

TEST(TracestateTest, PassesOverWhatIsBroken) {
  for (const std::string text :
       {"foo", "foo =1", "FOO=1", "foo.bar=1", "foo@=1,bar=2", "@foo=1,bar=2", "foo@@bar=1,bar=2",
        "foo@bar@baz=1,bar=2", "foo=bar=baz", "foo=,bar=3", "foo=1,foo=1", "foo=1,foo=2", "0foo=1",
        "=1", "foo=\x7f", "foo=\xc3\xa9"}) {
    EXPECT_FALSE(parse_tracestate(text)) << text;
  }
}

TEST(TracestateTest, HoldsTheLimits) {
  std::string members;
  for (int i = 1; i <= 32; ++i) members += "bar" + std::to_string(i) + "=1,";
  EXPECT_TRUE(parse_tracestate(members));
  EXPECT_FALSE(parse_tracestate(members + "bar33=1"));
  EXPECT_TRUE(parse_tracestate(std::string(256, 'z') + "=1"));
  EXPECT_FALSE(parse_tracestate(std::string(257, 'z') + "=1"));
  EXPECT_TRUE(parse_tracestate(std::string(241, 't') + "@" + std::string(14, 'v') + "=1"));
  EXPECT_FALSE(parse_tracestate(std::string(242, 't') + "@v=1"));
  EXPECT_FALSE(parse_tracestate("t@" + std::string(15, 'v') + "=1"));
  EXPECT_TRUE(parse_tracestate("foo=" + std::string(256, 'v')));
  EXPECT_FALSE(parse_tracestate("foo=" + std::string(257, 'v')));
}

TEST(TracestateTest, ShortensToWholeMembersLongOnesFirst) {
  const std::string member = "=" + std::string(118, 'v');  // 120 characters with its key
  const std::string five = "a" + member + ",b" + member + ",c" + member + ",d" + member;
  EXPECT_EQ(shortened_tracestate(five), five);  // 483 characters
  const std::string extra = ",long=" + std::string(200, 'x');
  EXPECT_EQ(shortened_tracestate(five + extra), five);
  EXPECT_EQ(shortened_tracestate(five + ",e" + member), five);
  EXPECT_EQ(shortened_tracestate("e=1" + extra + "," + five), "e=1," + five);
}

TEST(IncomingContextTest, TakesNamesInAnyCaseAndJoinsStates) {
  const std::vector<HttpHeader> headers = {{"Host", "a"},
                                           {"TraceParent", kParent},
                                           {"TRACESTATE", "foo=1,bar=2"},
                                           {"tracestate", ""},
                                           {"tracestate", "baz=3"}};
  const auto context = incoming_context(headers);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->state, "foo=1,bar=2,baz=3");
}

TEST(IncomingContextTest, ABrokenStateLeavesTheParent) {
  const auto context =
      incoming_context(std::vector<HttpHeader>{{"traceparent", kParent}, {"tracestate", "Foo=1"}});
  ASSERT_TRUE(context);
  EXPECT_EQ(to_hex(context->trace_id), kTraceId);
  EXPECT_EQ(context->state, "");
}

TEST(IncomingContextTest, NothingWithoutExactlyOneValidParent) {
  const HttpHeader parent = {"traceparent", kParent};
  EXPECT_FALSE(incoming_context({}));
  EXPECT_FALSE(incoming_context(std::vector<HttpHeader>{{"tracestate", "foo=1"}}));
  EXPECT_FALSE(incoming_context(std::vector<HttpHeader>{parent, parent}));
  EXPECT_FALSE(incoming_context(std::vector<HttpHeader>{{"trace-parent", kParent}}));
  EXPECT_FALSE(incoming_context(std::vector<HttpHeader>{{"trace.parent", kParent}}));
}

TEST(TraceIdTest, NewOnesDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    IdSource source;
    ids.insert(to_hex(source.trace_id()));
    for (int j = 0; j < 4; ++j) ids.insert(to_hex(source.next_span_id()));
  }
  EXPECT_EQ(ids.size(), 5000U);
}

}  // namespace trace_context_test
}  // namespace quire
