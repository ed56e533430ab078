// What the processor that runs us has: instruction sets (CPUID), and whether the operating system
// saves their registers and lets this process use them.
#pragma once

#include "kernels/op_table.h"

namespace quire {

// Whether it has a level's instructions. For amx it asks Linux, once a process, for the right to
// use tile registers; threads inherit it.
bool processor_has(IsaLevel level);

// AMD's processors (Zen): where the best instruction differs by vendor.
bool processor_is_amd();

// AVX-512 VBMI, permutations of bytes, which no level promises.
bool processor_has_vbmi();

}  // namespace quire
