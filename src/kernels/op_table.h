// The serial kernels of one instruction-set level, as function pointers. A level starts as a copy
// of the one below and overrides what it does better; ops.cpp splits work over threads and calls
// these.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/matmul_kernel.h"
#include "kernels/row_kernels.h"

namespace quire {

// Instruction-set levels, each including those before it.
enum class IsaLevel : std::uint8_t {
  kRef,
  kAvx2,            // AVX2, FMA, F16C, BMI2
  kAvx512,          // AVX-512 F, BW, DQ, VL
  kAvx512VnniBf16,  // and VNNI, BF16
  kAmx              // and AMX tiles of bfloat16 and bytes
};

inline constexpr IsaLevel kIsaLevels[] = {IsaLevel::kRef, IsaLevel::kAvx2, IsaLevel::kAvx512,
                                          IsaLevel::kAvx512VnniBf16, IsaLevel::kAmx};

// "ref", "avx2", "avx512", "avx512_vnni_bf16", "amx"
std::string_view isa_level_name(IsaLevel level);

struct OpTable {
  IsaLevel level = IsaLevel::kRef;
  MatmulKernels matmul;
  RowKernels rows;
};

// The levels that this processor has (kernels/processor.h), lowest first.
std::vector<IsaLevel> available_levels();

// The kernels of `level`, which must be available.
const OpTable& op_table(IsaLevel level);

// The highest available level, or the one that QUIRE_FORCE_ISA names. kConfig for a name that is
// unknown or a level that this processor lacks, listing those it has.
Result<IsaLevel> choose_level();

}  // namespace quire
