// What the processor that runs us has: instruction sets (CPUID), and whether the operating system
// saves their registers and lets this process use them.
#pragma once

namespace quire {

bool processor_has_avx2();              // and FMA, F16C, BMI2
bool processor_has_avx512();            // and F, BW, DQ, VL
bool processor_has_avx512_vnni_bf16();  // and VNNI, BF16
// Asks Linux, once a process, for the right to use tile registers; threads inherit it.
bool processor_has_amx();

// AMD's processors (Zen): where the best instruction differs by vendor.
bool processor_is_amd();

}  // namespace quire
