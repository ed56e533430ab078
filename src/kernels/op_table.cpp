#include "kernels/op_table.h"

#include <array>
#include <cpuid.h>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "kernels/cpu/avx2/limits_avx2.h"
#include "kernels/cpu/avx2/matmul_avx2.h"
#include "kernels/cpu/avx2/row_avx2.h"
#include "kernels/cpu/avx512/limits_avx512.h"
#include "kernels/cpu/avx512/matmul_avx512.h"
#include "kernels/cpu/avx512/row_avx512.h"
#include "kernels/ref/limits_ref.h"
#include "kernels/ref/matmul_ref.h"
#include "kernels/ref/row_ref.h"

namespace quire {
namespace {

constexpr std::array kLevels = {IsaLevel::kRef, IsaLevel::kAvx2, IsaLevel::kAvx512};

bool has_f16c() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// __builtin_cpu_supports also asks whether the operating system saves the wide registers. In a
// build that emulates wide vectors the avx512 level runs wherever avx2 does.
bool is_available(IsaLevel level) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && has_f16c();
  switch (level) {
    case IsaLevel::kRef:
      return true;
    case IsaLevel::kAvx2:
      return avx2;
    case IsaLevel::kAvx512:
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
      return avx2;
#else
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  }
  return false;
}

// Even a function that only sets pointers may use a level's instructions, so it runs only where
// they are; elsewhere the table is that of the level below and nobody asks for it.
std::array<OpTable, kLevels.size()> make_tables() {
  std::array<OpTable, kLevels.size()> tables;
  tables[0] = {IsaLevel::kRef, ref_matmul_kernels(), ref_row_kernels(), ref_limit_kernels()};
  tables[1] = tables[0];
  tables[1].level = IsaLevel::kAvx2;
  if (is_available(IsaLevel::kAvx2)) {
    set_avx2_matmul(tables[1].matmul);
    set_avx2_rows(tables[1].rows);
    set_avx2_limits(tables[1].limits);
  }
  tables[2] = tables[1];
  tables[2].level = IsaLevel::kAvx512;
  if (is_available(IsaLevel::kAvx512)) {
    set_avx512_matmul(tables[2].matmul);
    set_avx512_rows(tables[2].rows);
    set_avx512_limits(tables[2].limits);
  }
  return tables;
}

}  // namespace

std::string_view isa_level_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::kRef:
      return "ref";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvx512:
      return "avx512";
  }
  return "?";
}

std::vector<IsaLevel> available_levels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel level : kLevels) {
    if (is_available(level)) levels.push_back(level);
  }
  return levels;
}

const OpTable& op_table(IsaLevel level) {
  static const std::array<OpTable, kLevels.size()> tables = make_tables();
  return tables[static_cast<std::size_t>(level)];
}

Result<IsaLevel> choose_level() {
  const std::vector<IsaLevel> levels = available_levels();
  const char* forced = std::getenv("QUIRE_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return levels.back();
  std::string names;
  for (const IsaLevel level : levels) {
    if (isa_level_name(level) == forced) return level;
    names += (names.empty() ? "" : ", ") + std::string(isa_level_name(level));
  }
  bool known = false;
  for (const IsaLevel level : kLevels) known = known || isa_level_name(level) == forced;
  return Status::config(
      fmt::format("QUIRE_FORCE_ISA={}: {}", forced,
                  known ? "this processor lacks that instruction-set level"
                        : "no such instruction-set level"),
      fmt::format("use one that this processor has ({}), or unset the variable", names));
}

}  // namespace quire
