#include "serve/protocols/openai/response_store.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

StoredResponse of_size(std::size_t bytes) {
  return {.response = std::string(bytes, 'x'), .input_items = "", .messages = ""};
}

TEST(ResponseStore, KeepsWhatItIsGiven) {
  ResponseStore store;
  store.put("a", {.response = "r", .input_items = "i", .messages = "m"});
  const auto found = store.find("a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->response, "r");
  EXPECT_EQ(found->messages, "m");
  EXPECT_EQ(store.bytes(), 4U);
  EXPECT_EQ(store.find("b"), nullptr);
  store.put("a", {.response = "r2", .input_items = "", .messages = ""});
  EXPECT_EQ(store.find("a")->response, "r2");
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.bytes(), 3U);
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_EQ(store.bytes(), 0U);
  EXPECT_EQ(found->response, "r");  // who has it keeps it
}

TEST(ResponseStore, TheLeastRecentlyUsedGoesFirstWhenThereAreTooMany) {
  ResponseStore store(3, 1000);
  for (const char* id : {"a", "b", "c"}) store.put(id, of_size(1));
  EXPECT_NE(store.find("a"), nullptr);
  store.put("d", of_size(1));
  EXPECT_EQ(store.size(), 3U);
  EXPECT_EQ(store.find("b"), nullptr);
  EXPECT_NE(store.find("a"), nullptr);
}

TEST(ResponseStore, BytesAreBoundedToo) {
  ResponseStore store(100, 50);
  store.put("a", of_size(19));
  store.put("b", of_size(19));
  EXPECT_EQ(store.bytes(), 40U);
  store.put("c", of_size(29));  // 30 bytes
  EXPECT_EQ(store.bytes(), 50U);
  EXPECT_EQ(store.find("a"), nullptr);
  EXPECT_NE(store.find("b"), nullptr);
  store.put("d", of_size(50));  // never fits, and nothing goes for it
  EXPECT_EQ(store.find("d"), nullptr);
  EXPECT_EQ(store.size(), 2U);
}

}  // namespace
}  // namespace quire
