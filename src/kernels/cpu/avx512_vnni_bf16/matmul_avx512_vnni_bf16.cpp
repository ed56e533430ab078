#include "kernels/cpu/avx512_vnni_bf16/matmul_avx512_vnni_bf16.h"

#include "kernels/cpu/avx512_vnni_bf16/matmul_bf16.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_vnni.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_vnni_pieces.inl.h"
#include "kernels/cpu/bf16_rows.inl.h"
#include "kernels/cpu/matmul.inl.h"

namespace quire {
namespace {

// As quantize_row_int16() of the levels below, the codes as two bytes.
void quantize_row_int16_bytes(const float* x, std::int64_t inputs, const Int16ByteRows& out) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const __m512 first = _mm512_loadu_ps(x + g * kGroupInputs);
    const __m512 second = _mm512_loadu_ps(x + g * kGroupInputs + 16);
    const __m512i largest =
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(first), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(second), magnitude));
    const RoundingScale scale = int16_scale(_mm512_reduce_max_epi32(largest));
    std::int32_t sums[2];
    for (int half = 0; half < 2; ++half) {
      const __m512 scaled =
          _mm512_mul_ps(half == 0 ? first : second, _mm512_set1_ps(scale.inverse));
      // Where the inverse is zero the codes are, whatever the values.
      const __m512i codes =
          scale.inverse != 0.0F ? _mm512_cvtps_epi32(scaled) : _mm512_setzero_si512();
      sums[half] = _mm512_reduce_add_epi32(codes);
      out.sums[2 * g + half] = sums[half];
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(codes, _mm512_set1_epi32(128)), 8);
      const std::int64_t at = g * kGroupInputs + 16 * half;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.high + at), _mm512_cvtepi32_epi8(high));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.low + at), _mm512_cvtepi32_epi8(codes));
    }
    out.scales[g] = scale.scale;
    out.scaled_sums[g] = scale.scale * static_cast<float>(sums[0] + sums[1]);
  }
}

template <WeightLayout kLayout, bool k16>
void many_rows(const MatmulPanels& args) {
  using Pieces = VnniPieces<kLayout, k16>;
  blocked_matmul<VnniVec16, Pieces, Pieces::kWidePanels>(args);
}

template <WeightLayout kLayout>
void set_vnni_matmul(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<int>(kLayout);
  kernels.with_int16[kIndex] = few_rows<VnniVec16, GroupInt16Block<VnniVec16, kLayout>>;
  kernels.with_int8[kIndex] = few_rows<VnniVec16, VnniInt8Block<kLayout>>;
  kernels.many_with_int16_bytes[kIndex] = many_rows<kLayout, true>;
  kernels.many_with_int8[kIndex] = many_rows<kLayout, false>;
}

// Those of the smallest spans serve the wider ones, too.
template <WeightLayout kSmallest>
void set_vnni_zero_matmul(MatmulKernels& kernels) {
  set_vnni_matmul<kSmallest>(kernels);
  share_with_wider_spans(kernels.with_int16, kSmallest);
  share_with_wider_spans(kernels.with_int8, kSmallest);
  share_with_wider_spans(kernels.many_with_int16_bytes, kSmallest);
  share_with_wider_spans(kernels.many_with_int8, kSmallest);
}

}  // namespace

void set_avx512_vnni_bf16_matmul(MatmulKernels& kernels, bool bf16_dots) {
  set_vnni_matmul<WeightLayout::kInt8>(kernels);
  set_vnni_matmul<WeightLayout::kInt4>(kernels);
  set_vnni_matmul<WeightLayout::kInt5>(kernels);
  set_vnni_matmul<WeightLayout::kUint4>(kernels);
  set_vnni_matmul<WeightLayout::kUint5>(kernels);
  set_vnni_matmul<WeightLayout::kUint4Super>(kernels);
  set_vnni_matmul<WeightLayout::kUint5Super>(kernels);
  set_vnni_matmul<WeightLayout::kInt6Super>(kernels);
  set_vnni_matmul<WeightLayout::kInt8Row>(kernels);
  set_vnni_matmul<WeightLayout::kInt4Group128>(kernels);
  set_vnni_matmul<WeightLayout::kInt8Halves>(kernels);
  set_vnni_matmul<WeightLayout::kInt8HalvesMinimum>(kernels);
  set_vnni_zero_matmul<WeightLayout::kUint4Zero32>(kernels);
  set_vnni_zero_matmul<WeightLayout::kUint4Scale32>(kernels);
  set_vnni_zero_matmul<WeightLayout::kInt8Zero32>(kernels);
  set_vnni_zero_matmul<WeightLayout::kInt8Scale32>(kernels);
  set_codebook_int_matmul<VnniVec16, false>(kernels);
  set_codebook_int_matmul<VnniVec16, true>(kernels);
  kernels.quantize_row_int16_bytes = quantize_row_int16_bytes;
  if (bf16_dots) {
    kernels.with_bf16[static_cast<int>(WeightLayout::kBF16)] =
        vec_matmul<MatmulVec16, Bf16DotBlock<MatmulVec16>, Bf16DotPieces<MatmulVec16>>;
    set_avx512_vnni_bf16_f8_matmul(kernels);
    kernels.round_row_bf16 = round_row_bf16;
  }
}

}  // namespace quire
