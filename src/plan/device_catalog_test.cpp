#include "plan/device_catalog.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/capacity.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::string one_device(const std::string& more) {
  return R"({"devices": [{"name": "x1", "memory_gb": 10, "bandwidth_gbs": 100,
      "teraflops": {"fp32": 1, "bf16": 4}, "source": "a test", "date": "2026-01")" +
         more + "}]}";
}

std::string catalog_error(const std::string& text) {
  return DeviceCatalog::parse(text, "own.json").status().message();
}

TEST(DeviceCatalogTest, BuiltinNamesItsSourcesAndPrices) {
  const auto catalog = DeviceCatalog::builtin();
  ASSERT_TRUE(catalog.ok()) << catalog.status().to_string();
  EXPECT_GE(catalog->devices().size(), 15U);
  std::int64_t cpus = 0;
  for (const PlanDevice& device : catalog->devices()) {
    EXPECT_FALSE(device.source.empty()) << device.name;
    EXPECT_THAT(device.date, testing::MatchesRegex("20[0-9][0-9]-[0-9][0-9].*")) << device.name;
    if (device.usd_per_hour) {
      EXPECT_FALSE(device.price_source.empty()) << device.name;
      EXPECT_THAT(device.price_date, testing::MatchesRegex("2026-.*")) << device.name;
    }
    cpus += device.cpu ? 1 : 0;
  }
  EXPECT_GE(cpus, 2);
  for (const char* const name : {"a100", "h100", "h200", "b200", "b300", "gb200", "mi300x",
                                 "mi355x", "l4", "l40s", "rtx4090", "rtx5090"}) {
    EXPECT_TRUE(catalog->find(name).ok()) << name;
  }
}

TEST(DeviceCatalogTest, FindsNamesAsPeopleWriteThem) {
  const auto catalog = DeviceCatalog::builtin();
  ASSERT_TRUE(catalog.ok());
  EXPECT_EQ(catalog->find("NVIDIA H100")->name, "h100");
  EXPECT_EQ(catalog->find("A100_40GB")->name, "a100-40gb");
  const Status near = catalog->find("h10").status();
  EXPECT_EQ(near.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(near.to_string(), HasSubstr("no device \"h10\" is known; did you mean h100?"));
  EXPECT_THAT(catalog->find("quantum-computer").status().remedy(),
              HasSubstr("known are a100-40gb"));
}

TEST(DeviceCatalogTest, WhatItPrintsItReads) {
  const auto catalog = DeviceCatalog::builtin();
  ASSERT_TRUE(catalog.ok());
  json::array devices;
  for (const PlanDevice& device : catalog->devices()) devices.push_back(to_json(device));
  const std::string text = json::serialize(json::object({{"devices", devices}}));
  const auto again = DeviceCatalog::parse(text, "again");
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  ASSERT_EQ(again->devices().size(), catalog->devices().size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(json::serialize(to_json(again->devices()[i])),
              json::serialize(to_json(catalog->devices()[i])));
  }
}

TEST(DeviceCatalogTest, ARefusalNamesFileAndKey) {
  EXPECT_THAT(catalog_error("[]"), HasSubstr("own.json: expected an object"));
  EXPECT_THAT(catalog_error("{}"), HasSubstr("own.json: devices: expected a list"));
  EXPECT_THAT(catalog_error(R"({"devices": [1]})"), HasSubstr("own.json: devices[0]"));
  EXPECT_THAT(catalog_error(one_device(R"(, "memroy": 1)")), HasSubstr("memroy"));
  EXPECT_THAT(catalog_error(one_device(R"(, "link_gbs": -1)")), HasSubstr("link_gbs is -1"));
  EXPECT_THAT(catalog_error(one_device(R"(, "max_tp": 8)")), HasSubstr("link_gbs is missing"));
  EXPECT_THAT(catalog_error(one_device(R"(, "memory_efficiency": 1.5)")),
              HasSubstr("memory_efficiency is 1.5"));
  EXPECT_THAT(catalog_error(one_device(R"(, "usd_per_hour": 1)")), HasSubstr("price_source"));
  EXPECT_THAT(catalog_error(R"({"devices": [{"name": "x", "memory_gb": 1, "bandwidth_gbs": 1,
      "teraflops": {"bf16": 4}, "source": "s", "date": "d"}]})"),
              HasSubstr("fp32 is missing"));
  EXPECT_EQ(catalog_error(one_device("")), "");
}

TEST(DeviceCatalogTest, AFileReplacesAndAdds) {
  auto catalog = DeviceCatalog::builtin();
  ASSERT_TRUE(catalog.ok());
  const std::size_t before = catalog->devices().size();
  const std::string path = testing::TempDir() + "own_devices.json";
  std::ofstream(path) << R"({"devices": [
      {"name": "h100", "memory_gb": 1, "bandwidth_gbs": 1, "teraflops": {"fp32": 1},
       "source": "own", "date": "2026-01"},
      {"name": "mine", "memory_gb": 1, "bandwidth_gbs": 1, "teraflops": {"fp32": 1},
       "source": "own", "date": "2026-01"}]})";
  ASSERT_TRUE(catalog->add_file(path).ok());
  EXPECT_EQ(catalog->devices().size(), before + 1);
  EXPECT_EQ(catalog->find("h100")->source, "own");
  EXPECT_TRUE(catalog->find("mine").ok());
}

TEST(DeviceCatalogTest, ATypeThatIsMissingIsComputedInTheNextWider) {
  const auto catalog = DeviceCatalog::builtin();
  ASSERT_TRUE(catalog.ok());
  EXPECT_EQ(catalog->find("a100")->flops_of(Arithmetic::kF8).first, Arithmetic::kBF16);
  EXPECT_EQ(catalog->find("h100")->flops_of(Arithmetic::kF8).first, Arithmetic::kF8);
  EXPECT_DOUBLE_EQ(catalog->find("h100")->flops_of(Arithmetic::kF4).second, 989e12);
}

}  // namespace
}  // namespace quire
