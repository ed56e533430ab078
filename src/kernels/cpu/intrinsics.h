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

#include "kernels/cpu/emulated_avx512.h"
#else
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// Makes the vector `x` pass through a register here, so that the compiler neither reorders the sum
// that it is part of nor keeps the terms of several steps alive at once.
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#define QUIRE_PIN_VECTOR(x) static_cast<void>(x)
#else
#define QUIRE_PIN_VECTOR(x) __asm__("" : "+v"(x))
#endif
