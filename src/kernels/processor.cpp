#include "kernels/processor.h"

#include <cpuid.h>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace quire {
namespace {

struct Registers {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
};

// Zeros for a leaf that the processor lacks.
Registers cpuid(unsigned int leaf, unsigned int subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool has_bit(std::uint64_t bits, unsigned int bit) { return (bits >> bit & 1U) != 0; }

// The register states that the operating system saves (XCR0).
std::uint64_t saved_states() {
  constexpr unsigned int kOsxsave = 27;
  if (!has_bit(cpuid(1).ecx, kOsxsave)) return 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

bool has_tiles() {
  constexpr unsigned int kAmxBf16 = 22;
  constexpr unsigned int kAmxTile = 24;
  constexpr unsigned int kAmxInt8 = 25;
  constexpr unsigned int kTileConfigState = 17;
  constexpr unsigned int kTileDataState = 18;
  const unsigned int features = cpuid(7).edx;
  if (!has_bit(features, kAmxBf16) || !has_bit(features, kAmxTile) ||
      !has_bit(features, kAmxInt8)) {
    return false;
  }
  const std::uint64_t saved = saved_states();
  if (!has_bit(saved, kTileConfigState) || !has_bit(saved, kTileDataState)) return false;
  // The palette that kernels configure: 8 tiles of 16 rows of 64 bytes.
  const Registers palette = cpuid(0x1D, 1);
  if (palette.ebx >> 16 < 8 || (palette.ebx & 0xFFFF) != 64 || (palette.ecx & 0xFFFF) != 16) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  return syscall(SYS_arch_prctl, kRequestPermission, long{kTileDataState}) == 0;
}

// Asked once: under a hypervisor each CPUID takes tens of microseconds.
// __builtin_cpu_supports also asks whether the operating system saves the wide registers.
bool has_avx2() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2") && (cpuid(1).ecx & bit_F16C) != 0;
  }();
  return has;
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512_vnni_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

bool has_amx() {
  if (!has_avx512_vnni_bf16()) return false;
  static const bool tiles = has_tiles();
  return tiles;
}

}  // namespace

bool processor_has(IsaLevel level) {
  switch (level) {
    case IsaLevel::kRef:
      return true;
    case IsaLevel::kAvx2:
      return has_avx2();
    case IsaLevel::kAvx512:
      return has_avx512();
    case IsaLevel::kAvx512VnniBf16:
      return has_avx512_vnni_bf16();
    case IsaLevel::kAmx:
      return has_amx();
  }
  return false;
}

bool processor_is_amd() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
}

bool processor_has_vbmi() { return has_avx512() && __builtin_cpu_supports("avx512vbmi"); }

}  // namespace quire
