#include "engine/pin_registry.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace pin_registry_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::vector<TokenId> kPrompt = {1, 2, 3, 4};

PinName named(std::string name, std::string owner = "ann") {
  return {.owner = std::move(owner), .name = std::move(name), .ttl = 10s};
}

// Pins it at `now`, and returns whose place it takes.
std::optional<PinId> pin(PinRegistry& registry, const PinName& name, Instant now,
                         const std::vector<TokenId>& prompt = kPrompt) {
  const auto id = registry.begin(name, prompt, {});
  EXPECT_TRUE(id.ok()) << id.status().to_string();
  const PinnedPrefix pinned{.id = *id, .num_blocks = 1, .num_pages = 1};
  return registry.computed(*id, &pinned, now);
}

TEST(PinRegistry, GivesNamesToPinsUntilTheirTimeIsOver) {
  PinRegistry registry;
  EXPECT_EQ(registry.next_expiry(), std::nullopt);
  EXPECT_EQ(pin(registry, named("a"), 1s), std::nullopt);
  EXPECT_EQ(pin(registry, named("b"), 3s), std::nullopt);
  EXPECT_EQ(registry.next_expiry(), 11s);
  EXPECT_TRUE(registry.take_expired(11s - 1ns).empty());
  EXPECT_EQ(registry.take_expired(11s), std::vector<PinId>{1});
  EXPECT_EQ(registry.remove("ann", "a").status().code(), StatusCode::kNotFound);
  const std::vector<PinnedPrefix> pinned = {
      {.id = 2, .num_blocks = 3, .num_pages = 6, .num_hits = 5}};
  const auto listed = registry.list("ann", pinned, 16);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].name, "b");
  EXPECT_EQ(listed[0].num_tokens, 48);
  EXPECT_EQ(listed[0].num_blocks, 6);
  EXPECT_EQ(listed[0].num_hits, 5);
  EXPECT_EQ(listed[0].expires_at, 13s);
}

TEST(PinRegistry, ANameIsItsOwnersAlone) {
  PinRegistry registry;
  pin(registry, named("a", "ann"), 1s);
  pin(registry, named("a", "bob"), 1s);
  EXPECT_EQ(registry.list("ann", std::vector<PinnedPrefix>{{.id = 1}, {.id = 2}}, 1).size(), 1U);
  EXPECT_TRUE(registry.list("eve", std::vector<PinnedPrefix>{{.id = 1}, {.id = 2}}, 1).empty());
  EXPECT_FALSE(registry.remove("eve", "a").ok());
  EXPECT_EQ(registry.remove("bob", "a").value(), 2U);
  EXPECT_FALSE(registry.remove("bob", "a").ok());
}

TEST(PinRegistry, AnotherPromptTakesTheNameWhenItIsComputed) {
  PinRegistry registry;
  pin(registry, named("a"), 1s);
  const PinId second = registry.begin(named("a"), std::vector<TokenId>{5, 6}, {}).value();
  EXPECT_FALSE(registry.renew(named("a"), std::vector<TokenId>{5, 6}, {}, 2s));
  EXPECT_EQ(registry.computed(second, nullptr, 2s), std::nullopt);  // not pinned: nothing changes
  EXPECT_TRUE(registry.renew(named("a"), kPrompt, {}, 2s));
  EXPECT_EQ(pin(registry, named("a"), 3s, {5, 6}), PinId{1});
  EXPECT_TRUE(registry.renew(named("a"), std::vector<TokenId>{5, 6}, {}, 4s));
  EXPECT_FALSE(registry.renew(named("a"), std::vector<TokenId>{5, 6}, {.low = 1}, 4s));
  EXPECT_EQ(registry.next_expiry(), 14s);
}

TEST(PinRegistry, WhatIsGivenUpHasNoName) {
  PinRegistry registry;
  const PinId id = registry.begin(named("a"), kPrompt, {}).value();
  registry.abandon(id);
  const PinnedPrefix pinned{.id = id};
  EXPECT_EQ(registry.computed(id, &pinned, 1s), id);  // nobody could unpin it
  pin(registry, named("b"), 1s);
  registry.clear();
  EXPECT_FALSE(registry.remove("ann", "b").ok());
}

TEST(PinRegistry, NamesAreBounded) {
  PinRegistry registry;
  for (std::int64_t i = 0; i < PinRegistry::kMaxOfOwner; ++i) {
    pin(registry, named(std::to_string(i)), 1s);
  }
  const auto refused = registry.begin(named("one more"), kPrompt, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("64 prefixes are pinned, 64 of them by this key"));
  EXPECT_TRUE(registry.begin(named("7"), kPrompt, {}).ok());
  for (std::int64_t i = PinRegistry::kMaxOfOwner; i < PinRegistry::kMaxOfAll; ++i) {
    pin(registry, named("a", std::to_string(i)), 1s);
  }
  EXPECT_FALSE(registry.begin(named("a", "bob"), kPrompt, {}).ok());
  registry.take_expired(100s);
  EXPECT_TRUE(registry.begin(named("a", "bob"), kPrompt, {}).ok());
}

TEST(PinRegistry, ChecksNamesTimesAndLengths) {
  EXPECT_TRUE(check_pin(named("a.B_9:-"), 16, 16).ok());
  for (const std::string& name :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a/b"),
        std::string("\xC3\xA4"), std::string("a\0", 2)}) {
    EXPECT_THAT(check_pin(named(name), 16, 16).message(), HasSubstr("name: expected 1 to 64"));
  }
  PinName pin = named("a");
  for (const Duration ttl : {Duration{0}, Duration{1s} - 1ns, Duration{24h} + 1ns}) {
    pin.ttl = ttl;
    EXPECT_THAT(check_pin(pin, 16, 16).message(), HasSubstr("ttl_seconds: expected 1 to 86400"));
  }
  EXPECT_THAT(check_pin(named("a"), 15, 16).message(), HasSubstr("15 tokens"));
}

}  // namespace pin_registry_test
}  // namespace quire
