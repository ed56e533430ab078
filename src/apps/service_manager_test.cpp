#include "apps/service_manager.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace quire {
namespace {

// A service manager's end of the socket, at a path of its own.
class ServiceManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("quire-notify-" + std::to_string(getpid()) + ".sock");
    std::filesystem::remove(path_);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path_.size(), sizeof(address.sun_path));
    path_.copy(address.sun_path, path_.size());
    handle_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ASSERT_EQ(::bind(handle_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  void TearDown() override {
    ::close(handle_);
    std::filesystem::remove(path_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }

  // The next datagram; empty where there is none.
  std::string received() const {
    std::array<char, 256> bytes{};
    const auto size = ::recv(handle_, bytes.data(), bytes.size(), 0);
    return size < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(size));
  }

  std::string path_;
  int handle_ = -1;
};

TEST_F(ServiceManagerTest, TellsEachState) {
  const ServiceManager manager(path_, true);
  EXPECT_TRUE(manager.ready().ok());
  EXPECT_EQ(received(), "READY=1");
  EXPECT_TRUE(manager.alive().ok());
  EXPECT_EQ(received(), "WATCHDOG=1");
  EXPECT_TRUE(manager.stopping().ok());
  EXPECT_EQ(received(), "STOPPING=1");
}

TEST_F(ServiceManagerTest, SendsSignsOfLifeOnlyWhereTheyAreAskedFor) {
  EXPECT_TRUE(ServiceManager(path_, false).alive().ok());
  EXPECT_EQ(received(), "");
}

TEST_F(ServiceManagerTest, ReadsTheEnvironment) {
  ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  EXPECT_TRUE(ServiceManager::from_environment().ready().ok());
  EXPECT_EQ(received(), "READY=1");
  EXPECT_TRUE(ServiceManager::from_environment().alive().ok());
  EXPECT_EQ(received(), "");

  ::setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_TRUE(ServiceManager::from_environment().alive().ok());
  EXPECT_EQ(received(), "WATCHDOG=1");

  ::setenv("WATCHDOG_PID", "1", 1);  // another process is watched
  EXPECT_TRUE(ServiceManager::from_environment().alive().ok());
  EXPECT_EQ(received(), "");
  ::setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  EXPECT_TRUE(ServiceManager::from_environment().alive().ok());
  EXPECT_EQ(received(), "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, SaysNothingWhereNobodyListens) {
  EXPECT_TRUE(ServiceManager("", true).ready().ok());
  EXPECT_TRUE(ServiceManager("", true).alive().ok());
}

TEST_F(ServiceManagerTest, ReportsASocketThatCannotBeReached) {
  EXPECT_FALSE(ServiceManager(path_ + ".not", false).ready().ok());
  EXPECT_FALSE(ServiceManager("vsock:2:1234", false).ready().ok());
  EXPECT_FALSE(ServiceManager("/" + std::string(200, 'x'), false).ready().ok());
}

}  // namespace
}  // namespace quire
