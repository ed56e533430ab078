#include "serve/http/body_pace.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using TimePoint = std::chrono::steady_clock::time_point;

// When a body with the server's defaults is given up, in seconds, of which a piece of `piece_bytes`
// comes every `interval`; 0 if all of it comes.
double given_up_after(std::uint64_t body_bytes, std::uint64_t piece_bytes, milliseconds interval) {
  const HttpServerConfig config;
  const TimePoint begin(seconds(1000));
  std::uint64_t received = 0;
  for (TimePoint now = begin;; now += interval) {
    if (received >= body_bytes) return 0;
    const BodyDeadline deadline = body_deadline(config, begin, now, received);
    if (deadline.at < now + interval) {
      return std::chrono::duration<double>(deadline.at - begin).count();
    }
    received += piece_bytes;
  }
}

TEST(BodyPace, AByteEveryHalfSecondDoesNotHoldForEver) {
  const double time = given_up_after(30 << 20, 1, milliseconds(500));
  EXPECT_GE(time, 30);
  EXPECT_LE(time, 31);
}

TEST(BodyPace, NoBodyTakesLongerThanTheDeadline) {
  // Well above the lowest rate, and still too slow for so much.
  EXPECT_EQ(given_up_after(30 << 20, 10 * 1024, milliseconds(500)), 300);
}

TEST(BodyPace, SilenceEndsItWhateverCameBefore) {
  EXPECT_EQ(given_up_after(30 << 20, 10 << 20, seconds(40)), 30);
}

TEST(BodyPace, AnHonestSlowClientIsWaitedFor) {
  EXPECT_EQ(given_up_after(256 << 10, 1024, milliseconds(1000)), 0);  // 1 KiB a second
  EXPECT_EQ(given_up_after(32 << 20, 128 << 10, milliseconds(1000)), 0);
}

}  // namespace
}  // namespace quire
