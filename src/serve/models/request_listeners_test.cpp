#include "serve/models/request_listeners.h"

#include <new>
#include <string>

#include <gtest/gtest.h>

namespace quire::request_listeners_test {
namespace {

struct Witness : RequestListener {
  Witness(std::string& to, bool lacks_memory) : heard(to), fails(lacks_memory) {}
  void begun(FollowedRequest& /*request*/, const GenerateRequest& /*what*/) {
    if (fails) throw std::bad_alloc();
    heard += "begun ";
  }
  void refused(FollowedRequest& /*request*/) { heard += "refused "; }
  std::string& heard;
  bool fails;
};

TEST(RequestListeners, WithoutMemoryForOneThoseBeforeItHearOfARefusal) {
  std::string first;
  std::string second;
  std::string third;
  RequestListeners<Witness, Witness, Witness> listeners(
      Witness(first, false), Witness(second, true), Witness(third, false));
  FollowedRequest request;
  EXPECT_THROW(listeners.begun(request, {}), std::bad_alloc);
  EXPECT_EQ(first, "begun refused ");
  EXPECT_EQ(second, "");
  EXPECT_EQ(third, "");
}

}  // namespace
}  // namespace quire::request_listeners_test
