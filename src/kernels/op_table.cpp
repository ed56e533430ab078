#include "kernels/op_table.h"

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "kernels/built_levels.h"
#include "kernels/cpu/amx/attention_amx.h"
#include "kernels/cpu/amx/matmul_amx.h"
#include "kernels/cpu/avx2/matmul_avx2.h"
#include "kernels/cpu/avx2/row_avx2.h"
#include "kernels/cpu/avx512/matmul_avx512.h"
#include "kernels/cpu/avx512/row_avx512.h"
#include "kernels/cpu/avx512_vnni_bf16/attention_avx512_vnni_bf16.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_avx512_vnni_bf16.h"
#include "kernels/processor.h"
#include "kernels/ref/matmul_ref.h"
#include "kernels/ref/row_ref.h"

namespace quire {
namespace {

// Whether vdpbf16ps computes more than float32 FMA does. Measured with two threads (`quire bench
// limits`): 427 against 226 GFLOP/s on an AMD Zen 4, 214 against 417 on an Intel processor with
// AMX, whose tiles beat both. Every AMD processor with it has VBMI, which the kernels use, too.
bool bf16_dots_are_fast() {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  if (IsaLevel::QUIRE_FIRST_EMULATED_LEVEL <= IsaLevel::kAvx512VnniBf16) return true;
#endif
  return processor_is_amd() && processor_has_vbmi();
}

[[maybe_unused]] void set_avx2(OpTable& table) {
  set_avx2_rounding(table.matmul);
  set_avx2_expanders(table.matmul);
  if constexpr (is_used_below(IsaLevel::kAvx512)) {
    set_avx2_matmul(table.matmul);
    set_avx2_int_matmul(table.matmul);
    set_avx2_rows(table.rows);
  }
}

[[maybe_unused]] void set_avx512(OpTable& table) {
  if constexpr (is_used_below(IsaLevel::kAvx512VnniBf16)) set_avx512_int_matmul(table.matmul);
  set_avx512_matmul(table.matmul);
  set_avx512_rows(table.rows);
}

[[maybe_unused]] void set_avx512_vnni_bf16(OpTable& table) {
  set_avx512_vnni_bf16_matmul(table.matmul, bf16_dots_are_fast());
  if (bf16_dots_are_fast()) set_avx512_vnni_bf16_attention(table.rows);
}

[[maybe_unused]] void set_amx(OpTable& table) {
  set_amx_matmul(table.matmul);
  set_amx_attention(table.rows);
}

void set_level(IsaLevel level, OpTable& table) {
  switch (level) {
    case IsaLevel::kRef:
      break;
    case IsaLevel::kAvx2:
      if constexpr (is_used(IsaLevel::kAvx2)) set_avx2(table);
      break;
    case IsaLevel::kAvx512:
      if constexpr (is_used(IsaLevel::kAvx512)) set_avx512(table);
      break;
    case IsaLevel::kAvx512VnniBf16:
      if constexpr (is_used(IsaLevel::kAvx512VnniBf16)) set_avx512_vnni_bf16(table);
      break;
    case IsaLevel::kAmx:
      if constexpr (is_used(IsaLevel::kAmx)) set_amx(table);
      break;
  }
}

TableOfLevels<OpTable> make_tables() {
  auto tables = make_table_of_levels(
      OpTable{IsaLevel::kRef, ref_matmul_kernels(), ref_row_kernels()}, set_level);
  for (const IsaLevel level : kIsaLevels) tables[static_cast<std::size_t>(level)].level = level;
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
    case IsaLevel::kAvx512VnniBf16:
      return "avx512_vnni_bf16";
    case IsaLevel::kAmx:
      return "amx";
  }
  return "?";
}

std::vector<IsaLevel> available_levels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel level : kIsaLevels) {
    if (is_available(level)) levels.push_back(level);
  }
  return levels;
}

const OpTable& op_table(IsaLevel level) {
  static const TableOfLevels<OpTable> tables = make_tables();
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
  for (const IsaLevel level : kIsaLevels) known = known || isa_level_name(level) == forced;
  if (!known) {
    return Status::config(
        fmt::format("QUIRE_FORCE_ISA={}: no such instruction-set level", forced),
        fmt::format("use one that this processor has ({}), or unset the variable", names));
  }
  if constexpr (kOnlyLevel) {
    return Status::config(
        fmt::format("QUIRE_FORCE_ISA={}: this program was built for the level {} alone", forced,
                    isa_level_name(*kOnlyLevel)),
        fmt::format("use one that it has ({}), or build all: make build LEVELS=all", names));
  }
  return Status::config(
      fmt::format("QUIRE_FORCE_ISA={}: this processor lacks that instruction-set level", forced),
      fmt::format("use one that this processor has ({}), or unset the variable", names));
}

}  // namespace quire
