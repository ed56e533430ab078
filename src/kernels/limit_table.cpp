#include "kernels/limit_table.h"

#include "kernels/built_levels.h"
#include "kernels/cpu/amx/limits_amx.h"
#include "kernels/cpu/avx2/limits_avx2.h"
#include "kernels/cpu/avx512/limits_avx512.h"
#include "kernels/cpu/avx512_vnni_bf16/limits_avx512_vnni_bf16.h"
#include "kernels/ref/limits_ref.h"

namespace quire {
namespace {

void set_limits(IsaLevel level, LimitKernels& kernels) {
  switch (level) {
    case IsaLevel::kRef:
      break;
    case IsaLevel::kAvx2:
      if constexpr (is_used(IsaLevel::kAvx2) && is_used_below(IsaLevel::kAvx512)) {
        set_avx2_limits(kernels);
      }
      break;
    case IsaLevel::kAvx512:
      if constexpr (is_used(IsaLevel::kAvx512)) set_avx512_limits(kernels);
      break;
    case IsaLevel::kAvx512VnniBf16:
      if constexpr (is_used(IsaLevel::kAvx512VnniBf16)) set_avx512_vnni_bf16_limits(kernels);
      break;
    case IsaLevel::kAmx:
      if constexpr (is_used(IsaLevel::kAmx)) set_amx_limits(kernels);
      break;
  }
}

}  // namespace

const LimitKernels& limit_kernels(IsaLevel level) {
  static const TableOfLevels<LimitKernels> tables =
      make_table_of_levels(ref_limit_kernels(), set_limits);
  return tables[static_cast<std::size_t>(level)];
}

}  // namespace quire
