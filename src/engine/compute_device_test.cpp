#include "engine/compute_device.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ComputeDevice, NamesAreKnownOrRefused) {
  for (const char* name : {"auto", "cpu", "cuda", "cuda:0", "cuda:12"}) {
    EXPECT_TRUE(check_device_name(name).ok()) << name;
  }
  for (const char* name : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:1 ",
                           "cuda:99999999999", "cuda:\x1b[31m"}) {
    const Status status = check_device_name(name);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
  }
}

TEST(ComputeDevice, ProcessorIsAlwaysThere) {
  const auto device = choose_device("cpu");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_FALSE(device->gpu);
  EXPECT_GT(device->memory.total, 0U);
  EXPECT_EQ(device->level_name(IsaLevel::kRef), isa_level_name(IsaLevel::kRef));
  EXPECT_EQ(device->make(IsaLevel::kRef, 1).value()->kind(), "cpu");
}

// Nothing else is taken instead of a GPU that is asked for.
TEST(ComputeDevice, GpuThatIsNotThereIsAnError) {
  const auto device = choose_device("cuda:4000");
  ASSERT_FALSE(device.ok());
  EXPECT_FALSE(device.status().remedy().empty());
  if (!has_cuda_kernels()) {
    EXPECT_EQ(device.status().code(), StatusCode::kUnimplemented);
    EXPECT_FALSE(choose_device("auto").value().gpu);
  }
}

}  // namespace
}  // namespace quire
