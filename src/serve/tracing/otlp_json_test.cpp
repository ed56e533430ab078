#include "serve/tracing/otlp_json.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/json.h"

namespace quire {
namespace {

constexpr std::int64_t kNanos = 1'700'000'000'123'456'789;  // more digits than a double has

TraceSpan example() {
  TraceSpan span;
  span.trace_id = {0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03,
                   0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c};
  span.span_id = {0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74};
  span.flags = 1;
  span.name = "chat \"tiny\"";
  span.kind = TraceSpanKind::kServer;
  span.start_unix_nanos = kNanos;
  span.end_unix_nanos = kNanos + 1;
  return span;
}

json::value encode(const std::vector<TraceSpan>& spans) {
  const SpanSource source = {.resource = {{"service.name", "a\nb"}, {"service.version", "1"}},
                             .scope_name = "quire",
                             .scope_version = "1"};
  auto value = parse_json(to_otlp_json(source, spans), "spans");
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *std::move(value) : json::value();
}

json::object only_span(const TraceSpan& span) {
  return encode({span}).at_pointer("/resourceSpans/0/scopeSpans/0/spans/0").as_object();
}

TEST(OtlpJsonTest, HasTheShapeOfAnExportRequest) {
  const json::value whole = encode({example(), example()});
  EXPECT_EQ(whole.at_pointer("/resourceSpans/0/resource/attributes/0"),
            json::value({{"key", "service.name"}, {"value", {{"stringValue", "a\nb"}}}}));
  EXPECT_EQ(whole.at_pointer("/resourceSpans/0/scopeSpans/0/scope"),
            json::value({{"name", "quire"}, {"version", "1"}}));
  EXPECT_EQ(whole.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array().size(), 2U);
}

TEST(OtlpJsonTest, IdsAreHexadecimalTimesAreStringsEnumsAreNumbers) {
  const json::object span = only_span(example());
  EXPECT_EQ(span.at("traceId"), "5b8efff798038103d269b633813fc60c");
  EXPECT_EQ(span.at("spanId"), "eee19b7ec3c1b174");
  EXPECT_EQ(span.at("startTimeUnixNano"), "1700000000123456789");
  EXPECT_EQ(span.at("endTimeUnixNano"), "1700000000123456790");
  EXPECT_EQ(span.at("kind"), 2);
  EXPECT_EQ(span.at("name"), "chat \"tiny\"");
  EXPECT_EQ(span.at("flags"), 0x101);
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_FALSE(span.contains("traceState"));
  EXPECT_FALSE(span.contains("status"));
  EXPECT_FALSE(span.contains("events"));
}

TEST(OtlpJsonTest, NamesTheParentAndTheFailure) {
  TraceSpan span = example();
  span.parent_id = {0, 0, 0, 0, 0, 0, 0, 7};
  span.parent_remote = true;
  span.state = "foo=\"1\"";
  span.failed = true;
  span.failure_message = "no";
  const json::object object = only_span(span);
  EXPECT_EQ(object.at("parentSpanId"), "0000000000000007");
  EXPECT_EQ(object.at("flags"), 0x301);
  EXPECT_EQ(object.at("traceState"), "foo=\"1\"");
  EXPECT_EQ(object.at("status"), json::value({{"code", 2}, {"message", "no"}}));
}

TEST(OtlpJsonTest, AttributesOfEveryKind) {
  TraceSpan span = example();
  span.attributes = {{"b", true},
                     {"i", std::numeric_limits<std::int64_t>::max()},
                     {"d", 0.25},
                     {"n", std::numeric_limits<double>::quiet_NaN()},
                     {"f", -std::numeric_limits<double>::infinity()},
                     {"s", std::string("\"\x01é")},
                     {"l", std::vector<std::string>{"x", "y"}},
                     {"e", std::vector<std::string>{}}};
  const json::array attributes = only_span(span).at("attributes").as_array();
  const auto value = [&](std::size_t i) { return attributes.at(i).at("value"); };
  EXPECT_EQ(attributes.at(0).at("key"), "b");
  EXPECT_EQ(value(0), json::value({{"boolValue", true}}));
  EXPECT_EQ(value(1), json::value({{"intValue", "9223372036854775807"}}));
  EXPECT_EQ(value(2), json::value({{"doubleValue", 0.25}}));
  EXPECT_EQ(value(3), json::value({{"doubleValue", "NaN"}}));
  EXPECT_EQ(value(4), json::value({{"doubleValue", "-Infinity"}}));
  EXPECT_EQ(value(5), json::value({{"stringValue", "\"\x01é"}}));
  EXPECT_EQ(value(6).at_pointer("/arrayValue/values/1"), json::value({{"stringValue", "y"}}));
  EXPECT_TRUE(value(7).at_pointer("/arrayValue/values").as_array().empty());
}

TEST(OtlpJsonTest, Events) {
  TraceSpan span = example();
  span.events = {{.name = "a", .unix_nanos = kNanos},
                 {.name = "b", .unix_nanos = kNanos, .attributes = {{"k", true}}}};
  const json::array events = only_span(span).at("events").as_array();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("timeUnixNano"), "1700000000123456789");
  EXPECT_EQ(events[1].at_pointer("/attributes/0/key"), "k");
}

}  // namespace
}  // namespace quire
