#include "engine/cache_scope.h"

#include <gtest/gtest.h>

namespace quire {
namespace cache_scope_test {

TEST(CacheScope, OwnersAndSaltsAreApart) {
  EXPECT_EQ(cache_scope_of("", ""), CacheScope{});
  const CacheScope scope = cache_scope_of("a", "b");
  EXPECT_EQ(cache_scope_of("a", "b"), scope);
  for (const CacheScope& other :
       {CacheScope{}, cache_scope_of("ab", ""), cache_scope_of("", "ab"), cache_scope_of("b", "a"),
        cache_scope_of("a", ""), cache_scope_of("", "b"), cache_scope_of("1 a", "b")}) {
    EXPECT_NE(other, scope);
  }
}

}  // namespace cache_scope_test
}  // namespace quire
