// Vec16 with the dot product of 16-bit integers (vpdpwssd), whose results are those of Vec16's two
// instructions.
#pragma once

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

struct Vec16Dots : Vec16 {
  static F add_pairs(F a, F b, F sum) {
    return _mm512_castsi512_ps(
        dot_pairs(_mm512_castps_si512(sum), _mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
};

}  // namespace
}  // namespace quire
