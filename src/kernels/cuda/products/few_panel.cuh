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
  std::int32_t x_stride = 0;         // from a group of 32 inputs to the next
  std::int32_t sum_stride = 0;
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
        has_row_(x.x != nullptr),
        inputs_(static_cast<int>(inputs)),
        panel_bytes_(panel_bytes),
        lane_(lane),
        header_(load_panel_header<kLayout>(panel, inputs, lane)) {}

  template <int kStages>
  __device__ void multiply(PanelStream<kLayout, kStages>& stream, float (&total)[4]) {
    const int groups = (inputs_ + 31) / 32;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) load_row(i, groups);
    load_sums(groups);
    for (int first = 0; first < groups; first += Form::kChunkGroups) {
      const std::uint8_t* const chunk = stream.wait();
      Place at = {chunk, 0};
      const int end = min(first + Form::kChunkGroups, groups);
#pragma unroll 1
      for (int group = first; group < end; group += kAtOnce, at.advance()) {
        const int left = groups - (group + kAtOnce);
        x_.x += kAtOnce * x_.x_stride;
        if ((group + kAtOnce) * 32 <= inputs_) {
          multiply_groups<true>(at, group, left);
        } else {
          multiply_groups<false>(at, group, left);
        }
        load_sums(left);
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

  // Of the next groups. A row that there is not stays zero.
  struct Inputs {
    uint4 x[kAtOnce] = {};
    float sums[kForm.has_minimum ? kAtOnce : 1][2] = {};
  };

  // Of the `i`th of the groups from x_.x on, of which so many are left.
  __device__ void load_row(int i, int left) {
    if (has_row_ && i < left) {
      inputs_of_.x[i] = *reinterpret_cast<const uint4*>(x_.x + i * x_.x_stride);
    }
  }
  __device__ void load_sums(int left) {
    if constexpr (kForm.has_minimum) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float*& from = x_.sums[row];
        if (from == nullptr) continue;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (i < left) inputs_of_.sums[i][row] = from[i * x_.sum_stride];
        }
        from += kAtOnce * x_.sum_stride;
      }
    }
  }

  // Of kAtOnce groups in a chunk: in one block, or in some whole ones.
  struct Place {
    const std::uint8_t* block;
    int place;  // of the first

    static constexpr int kBlockGroups = Form::kBlockGroups;
    __device__ void advance() {
      if constexpr (kBlockGroups > kAtOnce) {
        place = place + kAtOnce == kBlockGroups ? 0 : place + kAtOnce;
        block += place == 0 ? Form::kBlockBytes : 0;
      } else {
        block += kAtOnce / kBlockGroups * Form::kBlockBytes;
      }
    }
    __device__ const std::uint8_t* block_of(int i) const {
      return block + i / kBlockGroups * Form::kBlockBytes;
    }
    __device__ int place_of(int i) const { return place + i % kBlockGroups; }
  };
  static_assert(kAtOnce % Form::kBlockGroups == 0 || Form::kBlockGroups % kAtOnce == 0);

  // Groups `first` to first + kAtOnce - 1, behind which so many are left. kWhole: the panel has
  // them all. All of them are loaded before the first is multiplied.
  template <bool kWhole>
  __device__ void multiply_groups(const Place& at, int first, int left) {
    LaneWords<kLayout> words[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!kWhole && (first + i) * 32 >= inputs_) break;
      load_words<kWhole>(at.block_of(i), at.place_of(i), first + i, words[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int group = first + i;
      if (!kWhole && group * 32 >= inputs_) break;
      ZeroPairs zeros = header_.zeros;
      if constexpr (kForm.has_span_zeros()) {
        zeros = load_span_zeros<kLayout>(at.block_of(i), lane_);
      }
      GroupFragments<kForm.codes> a;
      expand_lane_words<kLayout>(words[i], zeros, lane_, a);
      const uint4 x = inputs_of_.x[i];
      const std::uint32_t b[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int step = 0; step < 2 * kTerms; ++step) {
        const int half = step / kTerms;
        multiply_add(sums_[sum_of_fragment<kLayout>(step)], a[step], b[2 * half], b[2 * half + 1]);
      }
      load_row(i, left);
      if constexpr (kHasSpans) {
        const bool is_last = !kWhole && group * 32 + 32 >= inputs_;
        if ((group + 1) % kSpanGroups == 0 || is_last) {
          add_span(at.block_of(i), at.place_of(i), group, i);
        }
      }
    }
  }

  template <bool kWhole>
  __device__ void load_words(const std::uint8_t* block, int place, int group,
                             LaneWords<kLayout>& words) const {
    if constexpr (kForm.is_dense() && !kWhole) {
      if (group * 32 + 32 > inputs_) {
        words.load_front(block, static_cast<int>(panel_bytes_ - group * kForm.group_bytes), lane_);
        return;
      }
    }
    load_lane_words<kLayout>(block, place, lane_, words);
  }

  __device__ void add_span(const std::uint8_t* block, int place, int group, int j) {
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
          total_[i] = fmaf(span.minimum[i / 2], input_sum(j, i % 2), total_[i]);
        }
      }
    }
  }

  // Of the span that group j of these ends.
  __device__ float input_sum(int j, int row) const {
    static_assert(!kForm.has_minimum || kSpanGroups == 1 || kSpanGroups == kAtOnce);
    const auto& sums = inputs_of_.sums;
    if constexpr (kSpanGroups == 1) return sums[j][row];
    return (sums[0][row] + sums[1][row]) + (sums[2][row] + sums[3][row]);
  }

  __device__ static void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4],
                                      std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  TileInputs x_;  // from the next groups on
  bool has_row_;
  int inputs_;
  std::int64_t panel_bytes_;
  int lane_;
  PanelHeader header_;
  Inputs inputs_of_;
  float total_[4] = {};
  float sums_[kForm.num_sums()][4] = {};
};

}  // namespace quire::cuda
