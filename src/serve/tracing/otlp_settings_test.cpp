#include "serve/tracing/otlp_settings.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

using Variables = std::map<std::string, std::string>;
using std::chrono::milliseconds;

Result<std::optional<OtlpSettings>> read_settings(std::string_view flag, Variables variables = {}) {
  return read_otlp_settings(flag, [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

OtlpSettings settings_of(std::string_view flag, Variables variables = {}) {
  auto settings = read_settings(flag, std::move(variables));
  EXPECT_TRUE(settings.ok()) << settings.status().to_string();
  if (!settings.ok() || !*settings) {
    ADD_FAILURE() << "no settings";
    return {};
  }
  return **settings;
}

constexpr const char* kUrl = "http://collector:4318/v1/traces";

TEST(OtlpSettingsTest, NothingWhereNobodyNamesAnEndpoint) {
  EXPECT_FALSE(*read_settings(""));
  EXPECT_FALSE(
      *read_settings("", {{"OTEL_SERVICE_NAME", "x"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}));
  EXPECT_FALSE(*read_settings(kUrl, {{"OTEL_SDK_DISABLED", "true"}}));
  EXPECT_FALSE(*read_settings(
      "", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"}, {"OTEL_TRACES_EXPORTER", "none"}}));
}

TEST(OtlpSettingsTest, TheFlagGoesBeforeTheVariables) {
  const Variables both = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318"},
                          {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own:4318/x"}};
  EXPECT_EQ(settings_of(kUrl, both).exporter.url, kUrl);
  EXPECT_EQ(settings_of("", both).exporter.url, "http://own:4318/x");
  EXPECT_EQ(settings_of("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318"}}).exporter.url,
            "http://base:4318/v1/traces");
  EXPECT_EQ(settings_of("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://base/otlp/"}}).exporter.url,
            "https://base/otlp/v1/traces");
}

TEST(OtlpSettingsTest, OnlyTheFlagAndTheBaseGetAPath) {
  EXPECT_EQ(settings_of("http://a:4318").exporter.url, "http://a:4318/v1/traces");
  EXPECT_EQ(settings_of("http://a:4318/").exporter.url, "http://a:4318/v1/traces");
  EXPECT_EQ(settings_of("http://a:4318/x").exporter.url, "http://a:4318/x");
  EXPECT_EQ(settings_of("", {{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:4318"}}).exporter.url,
            "http://a:4318");
}

TEST(OtlpSettingsTest, WhatIsNotThereIsRefusedByName) {
  const auto refused = [](std::string_view flag, Variables variables, StatusCode code,
                          std::string_view named) {
    const auto settings = read_settings(flag, std::move(variables));
    ASSERT_FALSE(settings.ok()) << named;
    EXPECT_EQ(settings.status().code(), code) << named;
    EXPECT_NE(settings.status().message().find(named), std::string::npos)
        << settings.status().to_string();
  };
  const StatusCode missing = StatusCode::kUnimplemented;
  const StatusCode wrong = StatusCode::kInvalidArgument;
  refused("grpc://a:4317", {}, missing, "--otlp-traces-endpoint");
  refused("grpc://a:4317", {}, missing, "gRPC");
  refused("a:4317", {}, wrong, "--otlp-traces-endpoint");
  refused("http://", {}, wrong, "--otlp-traces-endpoint");
  refused("http://a b", {}, wrong, "--otlp-traces-endpoint");
  refused("http://a/?x=1", {}, wrong, "--otlp-traces-endpoint");
  refused("http://user:secret@a/", {}, wrong, "--otlp-traces-endpoint");
  refused("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://a"}}, wrong, "OTEL_EXPORTER_OTLP_ENDPOINT");
  const auto variable = [&](const std::string& name, const std::string& value, StatusCode code) {
    refused(kUrl, {{name, value}}, code, name);
  };
  variable("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", missing);
  variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", missing);
  variable("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", missing);
  variable("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem", missing);
  variable("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem", missing);
  variable("OTEL_TRACES_SAMPLER", "jaeger_remote", missing);
  variable("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", wrong);
  variable("OTEL_EXPORTER_OTLP_TIMEOUT", "0", wrong);
  variable("OTEL_BSP_MAX_QUEUE_SIZE", "-1", wrong);
  variable("OTEL_EXPORTER_OTLP_HEADERS", "nothing", wrong);
  variable("OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0ab", wrong);
  variable("OTEL_EXPORTER_OTLP_HEADERS", "a b=1", wrong);
  variable("OTEL_RESOURCE_ATTRIBUTES", "a=%zz", wrong);
  variable("OTEL_RESOURCE_ATTRIBUTES", "a=%ff", wrong);
  variable("OTEL_RESOURCE_ATTRIBUTES", "=1", wrong);
  refused(kUrl, {{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "1.5"}},
          wrong, "OTEL_TRACES_SAMPLER_ARG");
}

TEST(OtlpSettingsTest, NoPasswordIsShown) {
  for (const char* url : {"http://user:secret@a/", "grpc://user:secret@a", "ftp://user:secret@a",
                          "user:secret@a", "http://user:se?secret@a", "http://user:secret@a b"}) {
    const auto settings = read_settings(url);
    ASSERT_FALSE(settings.ok()) << url;
    EXPECT_EQ(settings.status().to_string().find("secret"), std::string::npos) << url;
    EXPECT_NE(settings.status().message().find("password"), std::string::npos) << url;
  }
}

TEST(OtlpSettingsTest, NoValueOfAHeaderIsShown) {
  const auto settings =
      read_settings(kUrl, {{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer secret%0a"}});
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.status().to_string().find("secret"), std::string::npos);
}

TEST(OtlpSettingsTest, ReadsHeadersTimesAndTheResource) {
  const OtlpSettings settings =
      settings_of(kUrl, {{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x-y = 1 "},
                         {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                         {"OTEL_BSP_SCHEDULE_DELAY", "7"},
                         {"OTEL_BSP_MAX_QUEUE_SIZE", "9"},
                         {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "90"},
                         {"OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.name=b%2Cc"}});
  ASSERT_EQ(settings.headers.size(), 2U);
  EXPECT_EQ(settings.headers[0].name, "api-key");
  EXPECT_EQ(settings.headers[0].value, "a b=");
  EXPECT_EQ(settings.headers[1].value, "1");
  EXPECT_EQ(settings.timeout, milliseconds(250));
  EXPECT_EQ(settings.exporter.batch_delay, milliseconds(7));
  EXPECT_EQ(settings.exporter.max_queued_spans, 9U);
  EXPECT_EQ(settings.exporter.max_batch_spans, 9U);  // a batch is never more than the queue
  EXPECT_EQ(settings.service_name, "a");
  ASSERT_EQ(settings.resource.size(), 1U);
  EXPECT_EQ(settings.resource[0].second, "b,c");
  EXPECT_TRUE(settings.notes.empty());
}

TEST(OtlpSettingsTest, TheOwnVariableGoesFirst) {
  const OtlpSettings settings = settings_of(kUrl, {{"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                                                   {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "300"},
                                                   {"OTEL_RESOURCE_ATTRIBUTES", "service.name=a"},
                                                   {"OTEL_SERVICE_NAME", "b"}});
  EXPECT_EQ(settings.timeout, milliseconds(300));
  EXPECT_EQ(settings.service_name, "b");
}

TEST(OtlpSettingsTest, SaysThatProtobufBecomesJson) {
  EXPECT_EQ(settings_of(kUrl, {{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}}).notes.size(), 1U);
  EXPECT_TRUE(settings_of(kUrl, {{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}}).notes.empty());
}

TraceId id_of(std::uint64_t number) {
  TraceId id{};
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint64_t bits = random_bits(number, half);
    std::memcpy(&id[8 * half], &bits, sizeof(bits));
  }
  return id;
}

TraceContext parent(bool sampled) {
  TraceContext context;
  context.trace_id = id_of(1);
  context.span_id.fill(1);
  context.flags = sampled ? TraceContext::kSampled : 0;
  return context;
}

TEST(SamplerTest, TheParentDecidesWhereItMay) {
  for (const char* name :
       {"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}) {
    const auto sampler = TraceSampler::create(name, "0.5");
    ASSERT_TRUE(sampler.ok()) << name;
    EXPECT_TRUE(sampler->sample(parent(true), id_of(2))) << name;
    EXPECT_FALSE(sampler->sample(parent(false), id_of(2))) << name;
  }
  EXPECT_TRUE(TraceSampler::create("always_on", "")->sample(parent(false), id_of(2)));
  EXPECT_FALSE(TraceSampler::create("always_off", "")->sample(parent(true), id_of(2)));
  EXPECT_TRUE(TraceSampler().sample(std::nullopt, id_of(2)));
  EXPECT_FALSE(TraceSampler::create("parentbased_always_off", "")->sample({}, id_of(2)));
}

TEST(SamplerTest, ARatioTakesThatShareAndTheSameTracesAlways) {
  const auto tenth = TraceSampler::create("traceidratio", "0.1");
  const auto half = TraceSampler::create("traceidratio", "0.5");
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const TraceId id = id_of(static_cast<std::uint64_t>(i));
    if (!tenth->sample({}, id)) continue;
    ++taken;
    EXPECT_TRUE(half->sample({}, id));
  }
  EXPECT_NEAR(taken, 2000, 300);  // seven standard deviations
  TraceId last;
  last.fill(0xFF);
  EXPECT_TRUE(TraceSampler::create("traceidratio", "1")->sample({}, last));
  TraceId first = last;
  std::fill(first.begin() + 8, first.end(), std::uint8_t{0});
  EXPECT_FALSE(TraceSampler::create("traceidratio", "0")->sample({}, first));
  EXPECT_TRUE(TraceSampler::create("traceidratio", "0.000001")->sample({}, first));
}

}  // namespace
}  // namespace quire
