// Matrix products of weights that are codes of a table (codebook_panel.h), written once for every
// vector width: the table stays in registers. With float32 activations a weight is looked up and
// scaled as decode_output() does it. With activations rounded to 16 bits the table's integers
// (CodebookIntegers) are looked up, and a group's sum of products is exact and scaled once, as in
// matmul_int16.inl.h.
#pragma once

#include <cstdint>

#include "kernels/codebook_panel.h"
#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/cpu/matmul_groups.inl.h"
#include "kernels/cpu/matmul_int16.inl.h"

namespace quire {
namespace {

template <bool kNested>
[[gnu::always_inline]] inline CodebookPanel codebook_panel(const MatmulPanels& args) {
  CodebookPanel form = CodebookPanel::of(args.layout);
  form.nested = kNested;
  return form;
}

// The scales of N vectors of outputs, those of lane[n] and on of panel[n], asked for span by span.
template <typename V, bool kNested, int N>
struct CodebookScales {
  using F = typename V::F;
  using I = typename V::I;

  const MatmulPanels& args;
  const std::uint8_t* const (&panel)[N];
  const std::int64_t (&lane)[N];
  CodebookPanel form = codebook_panel<kNested>(args);
  // Nested: a scale is a number of the table times a unit, and an offset, as in
  // CodebookPanel::scale(). Until group `end` no output has another unit.
  std::int64_t end = 0;
  F units[N] = {};
  F offsets[N] = {};

  [[gnu::always_inline]] void read(std::int64_t g, F (&scale)[N]) {
    if constexpr (kNested) {
      if (g >= end) find_units(g);
    }
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const std::uint8_t* scales = panel[n] + form.scales_offset(g);
      if constexpr (kNested) {
        const F numbers = V::gather(kNestedScales, V::load_unsigned_bytes(scales + lane[n]));
        scale[n] = V::add(V::mul(numbers, units[n]), offsets[n]);
      } else {
        scale[n] = V::load(reinterpret_cast<const float*>(scales) + lane[n]);
      }
    }
  }

 private:
  [[gnu::always_inline]] void find_units(std::int64_t g) {
    const std::int64_t row_spans = form.row_spans(args.inputs);
    const auto span = static_cast<int>(g >> form.span_shift);
    F past = V::set1(static_cast<float>(-row_spans));  // less the spans up to where a unit ends
    for (int n = 0; n < N; ++n) {
      const std::uint8_t* tail = panel[n] + form.tail_offset(args.inputs);
      std::uint32_t place = 0;
      __builtin_memcpy(&place, tail + CodebookPanel::kPlaceOffset, sizeof(place));
      const int shift = 8 + static_cast<int>(place >> 24);
      const I rows = V::add32(V::lanes(), V::set1_int(static_cast<int>(lane[n])));
      const I at = V::add32(V::mul32(rows, V::set1_int(static_cast<int>(row_spans))),
                            V::set1_int(static_cast<int>(place & 0xFFFFFFU) + span));
      units[n] = V::gather(reinterpret_cast<const float*>(tail + CodebookPanel::kUnitsOffset),
                           V::shift_right_by(at, shift));
      offsets[n] = V::set1(*reinterpret_cast<const float*>(tail));
      const int run = 1 << shift;
      const I in_run = V::bit_and(at, V::set1_int(run - 1));
      past = V::max(past, V::to_float(V::sub32(in_run, V::set1_int(run))));
      if (g == 0) fetch_tail(tail + args.panel_bytes * (N * V::kWidth / kPanelOutputs));
    }
    end = (span + static_cast<std::int64_t>(-V::largest(past))) << form.span_shift;
  }

  // Of a panel that comes next: the end of one is far ahead of where it is read.
  [[gnu::always_inline]] static void fetch_tail(const std::uint8_t* tail) {
    __builtin_prefetch(tail, 0, V::kFetchLocality);
    __builtin_prefetch(tail + CodebookPanel::kLine, 0, V::kFetchLocality);
  }
};

// Looks up the weights of a vector of outputs.
template <typename V>
struct CodebookReader {
  using F = typename V::F;

  typename V::Table table;

  explicit CodebookReader(const MatmulPanels& args)
      : table(V::load_table(codebook_table(codebook_of(args.layout)))) {}

  template <int kFrom>
  [[gnu::always_inline]] F weight(typename V::I line, F scale) const {
    return V::mul(scale, V::template look_up<kFrom>(table, line));
  }
};

// Few rows.
template <typename V, bool kNested>
struct CodebookBlock {
  using Shape = typename V::DirectBlocks;
  using Reader = CodebookReader<V>;
  using F = typename V::F;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const Reader reader(args);
    CodebookScales<V, kNested, N> scales{args, streams.panel, streams.lane};
    const float* x = args.x;
    F acc[R][N];
    F scale[N] = {};
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs) {
      if (scales.form.begins_span(g)) scales.read(g, scale);
      const std::int64_t codes = scales.form.codes_offset(g);
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
    const CodebookReader<V> reader(args);
    for (std::int64_t lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
      float* out = lines + lane;
      const std::uint8_t* const panels[] = {panel};
      const std::int64_t lanes[] = {lane};
      CodebookScales<V, kNested, 1> scales{args, panels, lanes};
      typename V::F scale[] = {V::zero()};
      for (std::int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
        if (scales.form.begins_span(g) || g == begin / kGroupInputs) scales.read(g, scale);
        const std::uint8_t* codes = panel + scales.form.codes_offset(g) + 4 * lane;
        const auto put = [&]<int kHalf>(int u) __attribute__((always_inline)) {
          const typename V::I line = V::load_int(codes + u * CodebookPanel::kLine);
          repeat<4>([&]<int kByte>() __attribute__((always_inline)) {
            V::store(out, reader.template weight<8 * kByte + 4 * kHalf>(line, scale[0]));
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

// Looks up their integers, whose scales are those of the weights by `unit`.
template <typename V>
struct CodebookIntegerReader {
  typename V::WordTable table;
  typename V::F unit;

  explicit CodebookIntegerReader(const MatmulPanels& args) {
    const CodebookIntegers& integers = codebook_integers(codebook_of(args.layout));
    table = V::load_word_table(integers.values);
    unit = V::set1(integers.unit);
  }

  template <bool kNested, int N>
  [[gnu::always_inline]] void read(CodebookScales<V, kNested, N>& scales, std::int64_t g,
                                   typename V::F (&scale)[N]) const {
    scales.read(g, scale);
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) scale[n] = V::mul(scale[n], unit);
  }
};

// Few rows with inputs of 16 bits.
template <typename V, bool kNested>
struct CodebookInt16Block {
  using Shape = typename V::LineBlocks;
  using F = typename V::F;
  using I = typename V::I;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const CodebookIntegerReader<V> reader(args);
    CodebookScales<V, kNested, N> scales{args, streams.panel, streams.lane};
    const CodebookPanel& form = scales.form;
    const std::int16_t* x = args.int16_x.codes;
    F acc[R][N];
    F scale[N] = {};
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs * R) {
      if (form.begins_span(g)) reader.read(scales, g, scale);
      const std::int64_t codes = form.codes_offset(g);
      streams.fetch(codes, CodebookPanel::kGroupBytes);
      I dot[R][N][V::kLineSums];
      repeat<4>([&]<int kLine>() __attribute__((always_inline)) {
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          I weights[4];
          V::look_up_line(reader.table,
                          V::load_int(streams.panel[n] + codes + kLine * CodebookPanel::kLine +
                                      4 * streams.lane[n]),
                          weights);
          add_line<kLine>(weights, x, n, dot);
        }
      });
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          const F product = V::mul(scale[n], V::set1(args.int16_x.scales[g * R + r]));
          acc[r][n] = V::fma(V::to_float(V::join_sums(dot[r][n])), product, acc[r][n]);
        }
      }
    }
    store_block<V>(args, 0, output, acc);
  }

 private:
  // Adds the products of line kLine of a group, whose inputs are at `x`.
  template <int kLine, int R, int N>
  [[gnu::always_inline]] static void add_line(const I (&weights)[4], const std::int16_t* x, int n,
                                              I (&dot)[R][N][V::kLineSums]) {
    repeat<4>([&]<int kIndex>() __attribute__((always_inline)) {
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I inputs =
            V::template line_inputs<kIndex>(x + (kLine * R + r) * 4, x + ((kLine + 4) * R + r) * 4);
        I& sum = dot[r][n][kIndex % V::kLineSums];
        sum = kLine == 0 && kIndex < V::kLineSums ? V::multiply_add16(weights[kIndex], inputs)
                                                  : V::add_products16(sum, weights[kIndex], inputs);
        QUIRE_PIN_VECTOR(sum);
      }
    });
  }
};

// As the lines of Int16Product.
template <typename V, bool kNested>
struct CodebookInt16Pieces {
  using Product = Int16Product<V, 1, /*kMinimum=*/false, /*kScalesGroups=*/true>;
  using Piece = typename Product::Piece;
  static constexpr std::int64_t kInputs = Product::kInputs;
  static constexpr bool kScalesOutputs = false;

  // Inputs [begin, end), whole groups, of a panel.
  static void expand(const MatmulPanels& args, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    const CodebookIntegerReader<V> reader(args);
    const std::int64_t first = begin / kGroupInputs;
    for (std::int64_t lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
      const std::uint8_t* const panels[] = {panel};
      const std::int64_t lanes[] = {lane};
      CodebookScales<V, kNested, 1> scales{args, panels, lanes};
      const CodebookPanel& form = scales.form;
      typename V::F scale[] = {V::zero()};
      for (std::int64_t g = 0; g < (end - begin) / kGroupInputs; ++g) {
        if (g == 0 || form.begins_span(first + g)) reader.read(scales, first + g, scale);
        V::store(piece.scales + g * kPanelOutputs + lane, scale[0]);
        const std::uint8_t* codes = panel + form.codes_offset(first + g) + 4 * lane;
        std::int16_t* const lines = piece.lines + g * kGroupInputs * kPanelOutputs + 2 * lane;
        QUIRE_UNROLL
        for (int u = 0; u < 4; ++u) {
          typename V::I pairs[4];
          V::look_up_pairs(reader.table, V::load_int(codes + u * CodebookPanel::kLine), pairs);
          std::int16_t* const low = lines + u * 4 * kPanelOutputs;
          std::int16_t* const high = lines + (u + 4) * 4 * kPanelOutputs;
          V::store_int(low, pairs[0]);
          V::store_int(high, pairs[1]);
          V::store_int(low + 2 * kPanelOutputs, pairs[2]);
          V::store_int(high + 2 * kPanelOutputs, pairs[3]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace quire
