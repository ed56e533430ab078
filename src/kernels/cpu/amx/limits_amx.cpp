#include "kernels/cpu/amx/limits_amx.h"

#include <cstring>

#include "kernels/cpu/tiles.h"

namespace quire {
namespace {

// Four sums (tiles 0 to 3) of products of two left and two right factors (4, 5 and 6, 7), as in a
// kernel.
constexpr int kSums = 4;

struct alignas(64) TileData {
  std::uint8_t bytes[kTileRows * kTileRowBytes];
};

void prepare(std::uint16_t one_of_16_bits) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, kTileRows, kTileRowBytes);
  TileData ones;
  for (int i = 0; i < kTileRows * kTileRowBytes; i += 2) {
    std::memcpy(ones.bytes + i, &one_of_16_bits, sizeof(one_of_16_bits));
  }
  tile_configure(config);
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  tile_load<4>(ones.bytes, kTileRowBytes);
  tile_load<5>(ones.bytes, kTileRowBytes);
  tile_load<6>(ones.bytes, kTileRowBytes);
  tile_load<7>(ones.bytes, kTileRowBytes);
}

// The sum of all elements of the four sums, which are equal.
template <typename T>
float finish() {
  TileData data[kSums];
  tile_store<0>(data[0].bytes, kTileRowBytes);
  tile_store<1>(data[1].bytes, kTileRowBytes);
  tile_store<2>(data[2].bytes, kTileRowBytes);
  tile_store<3>(data[3].bytes, kTileRowBytes);
  tile_release();
  float sum = 0.0F;
  for (const TileData& tile : data) {
    for (int i = 0; i < kTileRows * kTileRowBytes; i += 4) {
      T value = 0;
      std::memcpy(&value, tile.bytes + i, sizeof(value));
      sum += static_cast<float>(value);
    }
  }
  return sum;
}

float bf16_tiles(std::int64_t rounds) {
  prepare(0x3F80);
  for (std::int64_t round = 0; round < rounds; ++round) {
    tile_dot_bf16<0, 4, 6>();
    tile_dot_bf16<1, 4, 7>();
    tile_dot_bf16<2, 5, 6>();
    tile_dot_bf16<3, 5, 7>();
  }
  return finish<float>();
}

float byte_tiles(std::int64_t rounds) {
  prepare(0x0101);
  for (std::int64_t round = 0; round < rounds; ++round) {
    tile_dot_bytes<0, 4, 6>();
    tile_dot_bytes<1, 4, 7>();
    tile_dot_bytes<2, 5, 6>();
    tile_dot_bytes<3, 5, 7>();
  }
  return finish<std::int32_t>();
}

constexpr std::int64_t kOutputs = std::int64_t{kTileRows} * kTileRowBytes / 4;  // of one sum

}  // namespace

void set_amx_limits(LimitKernels& kernels) {
  kernels.peak(PeakKind::kBf16Tile) = {bf16_tiles, kSums * kOutputs * (kTileRowBytes / 2) * 2};
  kernels.peak(PeakKind::kInt8Tile) = {byte_tiles, kSums * kOutputs * kTileRowBytes * 2};
}

}  // namespace quire
