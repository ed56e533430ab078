// One panel times a tile of at most eight rows, by one warp: weights come through its PanelStream,
// inputs from memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/panel_fragments.cuh"
#include "kernels/cuda/products/panel_spans.cuh"
#include "kernels/cuda/products/panel_stream.cuh"

namespace quire::cuda {

// Rows of inputs as round_fragments() writes them, of which a tile's may be any.
struct TileInputs {
  const std::uint16_t* x = nullptr;  // of the row that the lane loads; null: none
  const float* sums[2] = {};         // of the two rows that the lane has results of; null: none
  std::int64_t x_stride = 0;         // from a group of 32 inputs to the next
  std::int64_t sum_stride = 0;
};

template <WeightLayout kLayout>
class FewPanel {
 public:
  using Form = StreamForm<kLayout>;

  // `lane` gets of the tile's products total[i]: output 2 (lane / 4) + i / 2 of the panel, row 2
  // (lane % 4) + i % 2. The panel is
  // the next of the stream.
  __device__ FewPanel(const std::uint8_t* panel, std::int64_t panel_bytes, std::int64_t inputs,
                      const TileInputs& x, int lane)
      : x_(x),
        inputs_(static_cast<int>(inputs)),
        panel_bytes_(panel_bytes),
        lane_(lane),
        header_(load_panel_header<kLayout>(panel, inputs, lane)) {}

  template <int kStages>
  __device__ void multiply(PanelStream<kLayout, kStages>& stream, float (&total)[4]) {
    const int groups = (inputs_ + 31) / 32;
    load_inputs(0, groups);
    for (int first = 0; first < groups; first += Form::kChunkGroups) {
      const std::uint8_t* const chunk = stream.wait();
#pragma unroll 1
      for (int i = 0; i < Form::kChunkGroups && first + i < groups; i += kAtOnce) {
        const Inputs now = next_;
        load_inputs(first + i + kAtOnce, groups);
        if ((first + i + kAtOnce) * 32 <= inputs_) {
          multiply_groups<true>(chunk, first, i, now);
        } else {
          multiply_groups<false>(chunk, first, i, now);
        }
      }
      stream.release();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[i] = kHasSpans ? total_[i] : sums_[0][i];
      if constexpr (kForm.ends_with_factor()) total[i] *= header_.factor[i / 2];
    }
  }

 private:
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr int kTerms = fragment_terms(kForm.codes);
  static constexpr int kAtOnce = Form::kGroupsAtOnce;
  static constexpr int kSpanGroups = static_cast<int>(kForm.span_groups);
  static constexpr bool kHasSpans = kSpanGroups != 0;

  // Of the next groups.
  struct Inputs {
    uint4 x[kAtOnce];
    float sums[kForm.has_minimum ? kAtOnce : 1][2];
  };

  __device__ void load_inputs(int first, int groups) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int group = first + i;
      next_.x[i] = {};
      if (group < groups && x_.x != nullptr) {
        next_.x[i] = *reinterpret_cast<const uint4*>(x_.x + group * x_.x_stride);
      }
      if constexpr (kForm.has_minimum) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          next_.sums[i][row] = 0.0F;
          if (group < groups && x_.sums[row] != nullptr) {
            next_.sums[i][row] = x_.sums[row][group * x_.sum_stride];
          }
        }
      }
    }
  }

  // Groups i to i + kAtOnce - 1 of a chunk whose first is `first`. kWhole: the panel has them all.
  template <bool kWhole>
  __device__ void multiply_groups(const std::uint8_t* chunk, int first, int i, const Inputs& x) {
    constexpr int kBlockGroups = Form::kBlockGroups;
    const std::uint8_t* const first_block = chunk + i / kBlockGroups * Form::kBlockBytes;
    const int first_place = i % kBlockGroups;  // of a block that has all of them
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int group = first + i + j;
      if (!kWhole && group * 32 >= inputs_) break;
      const bool is_one_block = kBlockGroups >= kAtOnce;
      const std::uint8_t* const block =
          first_block + (is_one_block ? 0 : j / kBlockGroups * Form::kBlockBytes);
      const int place = is_one_block ? first_place + j : j % kBlockGroups;
      GroupFragments<kForm.codes> a;
      load_fragments<kWhole>(block, place, group, a);
      const std::uint32_t b[4] = {x.x[j].x, x.x[j].y, x.x[j].z, x.x[j].w};
#pragma unroll
      for (int step = 0; step < 2 * kTerms; ++step) {
        const int half = step / kTerms;
        multiply_add(sums_[sum_of_fragment<kLayout>(step)], a[step], b[2 * half], b[2 * half + 1]);
      }
      if constexpr (kHasSpans) {
        const bool is_last = !kWhole && group * 32 + 32 >= inputs_;
        if ((i + j + 1) % kSpanGroups == 0 || is_last) add_span(block, place, group, x, j);
      }
    }
  }

  template <bool kWhole>
  __device__ void load_fragments(const std::uint8_t* block, int place, int group,
                                 GroupFragments<kForm.codes>& a) const {
    LaneWords<kLayout> words;
    if constexpr (kForm.is_dense()) {
      if (!kWhole && group * 32 + 32 > inputs_) {
        words.load_front(block, static_cast<int>(panel_bytes_ - group * kForm.group_bytes), lane_);
      } else {
        load_lane_words<kLayout>(block, place, lane_, words);
      }
    } else {
      load_lane_words<kLayout>(block, place, lane_, words);
    }
    ZeroPairs zeros = header_.zeros;
    if constexpr (kForm.has_zeros && kHasSpans) zeros = load_zeros<kLayout>(block, lane_);
    expand_lane_words<kLayout>(words, zeros, lane_, a);
  }

  __device__ void add_span(const std::uint8_t* block, int place, int group, const Inputs& x,
                           int j) {
#pragma unroll
    for (int half = 0; half < (kForm.has_halves ? 2 : 1); ++half) {
      const SpanScales span = load_span_scales<kLayout>(header_, block, place, group, half, lane_);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[i] = fmaf(span.scale[i / 2], sums_[half][i], total_[i]);
        sums_[half][i] = 0.0F;
        if constexpr (kForm.has_minimum_codes()) {
          total_[i] = fmaf(span.minimum[i / 2], sums_[1][i], total_[i]);
          sums_[1][i] = 0.0F;
        }
        if constexpr (kForm.has_minimum) {
          total_[i] = fmaf(span.minimum[i / 2], input_sum(x, j, i % 2), total_[i]);
        }
      }
    }
  }

  // Of the span that group j of these ends.
  __device__ static float input_sum(const Inputs& x, int j, int row) {
    static_assert(!kForm.has_minimum || kSpanGroups == 1 || kSpanGroups == kAtOnce);
    if constexpr (kSpanGroups == 1) return x.sums[j][row];
    return (x.sums[0][row] + x.sums[1][row]) + (x.sums[2][row] + x.sums[3][row]);
  }

  __device__ static void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4],
                                      std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  TileInputs x_;
  int inputs_;
  std::int64_t panel_bytes_;
  int lane_;
  PanelHeader header_;
  Inputs next_;
  float total_[4] = {};
  float sums_[kForm.num_sums()][4] = {};
};

}  // namespace quire::cuda
