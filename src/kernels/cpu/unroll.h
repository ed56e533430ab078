// Unrolls the short constant loop that follows, so that its arrays become registers.
#pragma once

#if defined(__clang__)
#define QUIRE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QUIRE_UNROLL _Pragma("GCC unroll 16")
#endif
