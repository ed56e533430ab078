// Blocks of the grid encodings (compact_block.h).
#pragma once

#include <cstdint>

#include "quant/compact_block.h"

namespace quire {

// As expand_block(); IQ1_*, IQ2_* and IQ3_* alone.
void expand_grid_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups);

// The scale of a block of IQ1_M, half bits: four bits in the top of each of four words.
std::uint16_t iq1_m_scale(const std::uint8_t* block);

}  // namespace quire
