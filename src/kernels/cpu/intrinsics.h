// The vector intrinsics of the files under cpu/. With QUIRE_EMULATE_WIDE_VECTORS they come from
// SIMDe, which carries AVX-512 out with narrower instructions, so that a test runs those kernels on
// any x86-64 processor.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// GCC 12 warns about its own headers' _mm512_undefined_*.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
// SIMDe 0.7.4 gives this alias the parameters of the masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
// The rest is missing there.
#include "kernels/cpu/emulated_avx512.h"
#else
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
