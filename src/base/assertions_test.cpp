// A build with a sanitizer is the one where assertions are checked: they have to be there.
#include <cassert>

#include <gtest/gtest.h>

namespace quire {
namespace {

bool assertions_run() {
  bool evaluated = false;
  assert(evaluated = true);
  return evaluated;
}

TEST(Assertions, AreOnWhereASanitizerIs) {
#ifdef QUIRE_SANITIZE
  EXPECT_TRUE(assertions_run()) << "built with " QUIRE_SANITIZE " and with NDEBUG";
#else
  if (!assertions_run()) GTEST_SKIP() << "an optimized build has none";
#endif
}

}  // namespace
}  // namespace quire
