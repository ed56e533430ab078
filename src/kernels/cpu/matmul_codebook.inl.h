// Matrix products of weights that are codes of a table (codebook_panel.h) with float32 activations,
// written once for every vector width: the table stays in registers, and a weight is looked up and
// scaled as decode_output() does it.
#pragma once

#include <cstdint>

#include "kernels/codebook_panel.h"
#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/cpu/matmul_groups.inl.h"

namespace quire {
namespace {

// One vector of outputs of one panel.
template <typename V, bool kNested>
struct CodebookReader {
  using F = typename V::F;

  CodebookPanel form;
  std::int64_t inputs;
  typename V::Table table;

  explicit CodebookReader(const MatmulPanels& args)
      : form(CodebookPanel::of(args.layout)),
        inputs(args.inputs),
        table(V::load_table(codebook_table(codebook_of(args.layout)))) {
    form.nested = kNested;
  }

  [[gnu::always_inline]] F scale(const std::uint8_t* panel, std::int64_t g,
                                 std::int64_t lane) const {
    if constexpr (!kNested) {
      return V::load(reinterpret_cast<const float*>(panel + form.scales_offset(g)) + lane);
    }
    float scales[V::kWidth];
    for (int n = 0; n < V::kWidth; ++n) scales[n] = form.scale(panel, inputs, g, lane + n);
    return V::load(scales);
  }

  template <int kFrom>
  [[gnu::always_inline]] F weight(typename V::I line, F scale) const {
    return V::mul(scale, V::template look_up<kFrom>(table, line));
  }
};

// Few rows.
template <typename V, bool kNested>
struct CodebookBlock {
  using Shape = typename V::DirectBlocks;
  using Reader = CodebookReader<V, kNested>;
  using F = typename V::F;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const Reader reader(args);
    const float* x = args.x;
    F acc[R][N];
    F scale[N] = {};
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs) {
      if (reader.form.begins_span(g)) {
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) scale[n] = reader.scale(streams.panel[n], g, streams.lane[n]);
      }
      const std::int64_t codes = reader.form.codes_offset(g);
      streams.fetch(codes, CodebookPanel::kGroupBytes);
      for (int u = 0; u < 4; ++u) {
        multiply_line<0>(args, reader, streams, codes + u * CodebookPanel::kLine, x + 4 * u, scale,
                         acc);
      }
      for (int u = 0; u < 4; ++u) {
        multiply_line<4>(args, reader, streams, codes + u * CodebookPanel::kLine, x + 16 + 4 * u,
                         scale, acc);
      }
    }
    store_block<V>(args, 0, output, acc);
  }

 private:
  // The inputs whose codes are the low nibbles of a line, or (kFrom 4) the high ones.
  template <int kFrom, int R, int N>
  [[gnu::always_inline]] static void multiply_line(const MatmulPanels& args, const Reader& reader,
                                                   const WeightStreams<V, N>& streams,
                                                   std::int64_t line, const float* x,
                                                   const F (&scale)[N], F (&acc)[R][N]) {
    typename V::I codes[N];
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      codes[n] = V::load_int(streams.panel[n] + line + 4 * streams.lane[n]);
    }
    repeat<4>([&]<int kByte>() __attribute__((always_inline)) {
      F weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = reader.template weight<8 * kByte + kFrom>(codes[n], scale[n]);
      }
      multiply_add<V>(acc, weight, x + kByte, args.x_stride);
    });
  }
};

// As lines of 16 floats.
template <typename V, bool kNested>
struct CodebookLines {
  // Inputs [begin, end), whole groups, of a panel.
  static const float* expand(const MatmulPanels& args, const std::uint8_t* panel,
                             std::int64_t begin, std::int64_t end, float* lines) {
    const CodebookReader<V, kNested> reader(args);
    for (std::int64_t lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
      float* out = lines + lane;
      typename V::F scale = V::zero();
      for (std::int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
        if (reader.form.begins_span(g) || g == begin / kGroupInputs) {
          scale = reader.scale(panel, g, lane);
        }
        const std::uint8_t* codes = panel + reader.form.codes_offset(g) + 4 * lane;
        const auto put = [&]<int kHalf>(int u) __attribute__((always_inline)) {
          const typename V::I line = V::load_int(codes + u * CodebookPanel::kLine);
          repeat<4>([&]<int kByte>() __attribute__((always_inline)) {
            V::store(out, reader.template weight<8 * kByte + 4 * kHalf>(line, scale));
            out += kPanelOutputs;
          });
        };
        for (int u = 0; u < 4; ++u) put.template operator()<0>(u);
        for (int u = 0; u < 4; ++u) put.template operator()<1>(u);
      }
    }
    return lines;
  }
};

}  // namespace
}  // namespace quire
