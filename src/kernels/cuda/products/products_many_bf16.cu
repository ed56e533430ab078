// Weights of bfloat16, with more kinds of tiles than others.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {
namespace {

template <int kWarpgroups, int kRows, bool kIsGated = false>
using Bf16Tile = ManyTile<WeightLayout::kBF16, kWarpgroups, kRows, kIsGated>;

constexpr TileKind kBf16Kinds[] = {tile_kind<Bf16Tile<2, 256>>(), tile_kind<Bf16Tile<3, 128>>(),
                                   tile_kind<Bf16Tile<2, 128>>(), tile_kind<Bf16Tile<1, 128>>()};
constexpr TileKind kGatedBf16Kinds[] = {tile_kind<Bf16Tile<2, 256, true>>(),
                                        tile_kind<Bf16Tile<2, 128, true>>(),
                                        tile_kind<Bf16Tile<2, 64, true>>()};

void launch_bf16(const Launch& launch, const ManyCall& call) {
  if (call.up != nullptr) return launch_best(launch, call, kGatedBf16Kinds);
  launch_best(launch, call, kBf16Kinds);
}

}  // namespace

ManyLauncher many_bf16_launcher(WeightLayout layout) {
  return layout == WeightLayout::kBF16 ? launch_bf16 : nullptr;
}

}  // namespace quire::cuda
