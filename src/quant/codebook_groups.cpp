#include "quant/codebook_groups.h"

#include <cstring>

#include "quant/group_row.h"

namespace quire {
namespace {

// Quantiles of a normal distribution (Dettmers et al. 2023, appendix E).
constexpr float kNf4Table[16] = {-1.0F,
                                 -0.6961928009986877F,
                                 -0.5250730514526367F,
                                 -0.39491748809814453F,
                                 -0.28444138169288635F,
                                 -0.18477343022823334F,
                                 -0.09105003625154495F,
                                 0.0F,
                                 0.07958029955625534F,
                                 0.16093020141124725F,
                                 0.24611230194568634F,
                                 0.33791524171829224F,
                                 0.44070982933044434F,
                                 0.5626170039176941F,
                                 0.7229568362236023F,
                                 1.0F};

// Floats of a sign, two bits of exponent and one of mantissa, the largest as one.
constexpr float kFp4Table[16] = {
    0.0F, 0.0625F / 12.0F,  8.0F / 12.0F,  1.0F,  4.0F / 12.0F,  0.5F,  2.0F / 12.0F,  0.25F,
    0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -0.5F, -2.0F / 12.0F, -0.25F};

constexpr CodebookIntegers integers_of(const float (&table)[16], int one) {
  CodebookIntegers integers = {.values = {}, .unit = 1.0F / static_cast<float>(one)};
  for (int code = 0; code < 16; ++code) {
    const float value = table[code] * static_cast<float>(one);
    integers.values[code] = static_cast<std::int16_t>(value < 0 ? value - 0.5F : value + 0.5F);
  }
  return integers;
}

constexpr CodebookIntegers kNf4Integers = integers_of(kNf4Table, kLargestCodebookInteger);
constexpr CodebookIntegers kFp4Integers = integers_of(kFp4Table, 192);

float load_float(const std::uint8_t* from) {
  float value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float scale_at(const CodebookGroups& form, const std::uint8_t* row, std::int64_t inputs,
               std::int64_t group) {
  const std::uint8_t* span = row + form.span_offset(inputs, group);
  if (!form.nested) return load_float(span);
  NestedPlace place;
  std::memcpy(&place.bits, row + 4, sizeof(place.bits));
  const float unit = load_float(row + 8 + 4 * place.unit_of(group >> form.span_shift));
  return kNestedScales[*span] * unit + load_float(row);
}

}  // namespace

CodebookGroups codebook_groups(Encoding encoding) {
  const int index = static_cast<int>(encoding) - static_cast<int>(Encoding::kNF4Span64);
  return {.nested = index / 3 % 2 != 0,
          .span_shift = index % 3 + 1,
          .table = index < 6 ? kNf4Table : kFp4Table};
}

Encoding codebook_encoding(Codebook codebook, bool nested, std::int64_t span) {
  const int index = span >= 256 ? 2 : (span >= 128 ? 1 : 0);
  const int first =
      static_cast<int>(codebook == Codebook::kNF4 ? Encoding::kNF4Span64 : Encoding::kFP4Span64);
  return static_cast<Encoding>(first + (nested ? 3 : 0) + index);
}

const float* codebook_table(Codebook codebook) {
  return codebook == Codebook::kNF4 ? kNf4Table : kFp4Table;
}

const CodebookIntegers& codebook_integers(Codebook codebook) {
  return codebook == Codebook::kNF4 ? kNf4Integers : kFp4Integers;
}

void decode_codebook(Encoding encoding, const std::uint8_t* row, std::int64_t count, float* out) {
  const CodebookGroups form = codebook_groups(encoding);
  for (std::int64_t g = 0; g < count / kGroupSize; ++g, out += kGroupSize) {
    const float scale = scale_at(form, row, count, g);
    const std::uint8_t* codes = row + form.codes_offset(count, g);
    for (int i = 0; i < kHalfGroupSize; ++i) {
      out[i] = scale * form.table[codes[i] & 15];
      out[i + kHalfGroupSize] = scale * form.table[codes[i] >> 4];
    }
  }
}

// Of each sign and power of ten the middles of 1, 2, 4, ... 64 equal parts of its last nine tenths,
// as float32 has them; zero; and one.
const float kNestedScales[256] = {
    -0x1.fc6666p-1F,  -0x1.f53334p-1F,  -0x1.eep-1F,      -0x1.e6ccccp-1F,
    -0x1.df999ap-1F,  -0x1.d86666p-1F,  -0x1.d13334p-1F,  -0x1.cap-1F,
    -0x1.c2ccccp-1F,  -0x1.bb999ap-1F,  -0x1.b46666p-1F,  -0x1.ad3334p-1F,
    -0x1.a6p-1F,      -0x1.9eccccp-1F,  -0x1.97999ap-1F,  -0x1.906666p-1F,
    -0x1.893334p-1F,  -0x1.82p-1F,      -0x1.7accccp-1F,  -0x1.73999ap-1F,
    -0x1.6c6668p-1F,  -0x1.653334p-1F,  -0x1.5ep-1F,      -0x1.56ccccp-1F,
    -0x1.4f999ap-1F,  -0x1.486668p-1F,  -0x1.413334p-1F,  -0x1.3ap-1F,
    -0x1.32ccccp-1F,  -0x1.2b999ap-1F,  -0x1.246668p-1F,  -0x1.1d3334p-1F,
    -0x1.16p-1F,      -0x1.0eccccp-1F,  -0x1.079998p-1F,  -0x1.006666p-1F,
    -0x1.f26664p-2F,  -0x1.e4p-2F,      -0x1.d59998p-2F,  -0x1.c73334p-2F,
    -0x1.b8ccccp-2F,  -0x1.aa6666p-2F,  -0x1.9cp-2F,      -0x1.8d9998p-2F,
    -0x1.7f3334p-2F,  -0x1.70ccccp-2F,  -0x1.626666p-2F,  -0x1.54p-2F,
    -0x1.459998p-2F,  -0x1.373334p-2F,  -0x1.28ccccp-2F,  -0x1.1a6668p-2F,
    -0x1.0cp-2F,      -0x1.fb3332p-3F,  -0x1.de6666p-3F,  -0x1.c1999ap-3F,
    -0x1.a4ccccp-3F,  -0x1.88p-3F,      -0x1.6b3334p-3F,  -0x1.4e6666p-3F,
    -0x1.31999ap-3F,  -0x1.14ccccp-3F,  -0x1.fp-4F,       -0x1.b66668p-4F,
    -0x1.93d70ap-4F,  -0x1.8851eep-4F,  -0x1.7ccccep-4F,  -0x1.7147aep-4F,
    -0x1.65c29p-4F,   -0x1.5a3d7p-4F,   -0x1.4eb854p-4F,  -0x1.433334p-4F,
    -0x1.37ae14p-4F,  -0x1.2c28f6p-4F,  -0x1.20a3d6p-4F,  -0x1.151ebap-4F,
    -0x1.09999ap-4F,  -0x1.fc28f6p-5F,  -0x1.e51ebap-5F,  -0x1.ce147ap-5F,
    -0x1.b70a3ep-5F,  -0x1.ap-5F,       -0x1.88f5c2p-5F,  -0x1.71eb86p-5F,
    -0x1.5ae146p-5F,  -0x1.43d70ap-5F,  -0x1.2ccccep-5F,  -0x1.15c29p-5F,
    -0x1.fd70a4p-6F,  -0x1.cf5c2ap-6F,  -0x1.a147aep-6F,  -0x1.733334p-6F,
    -0x1.451ebap-6F,  -0x1.170a3ep-6F,  -0x1.d1eb86p-7F,  -0x1.75c29p-7F,
    -0x1.3e76c8p-7F,  -0x1.2c083p-7F,   -0x1.19999ap-7F,  -0x1.072b02p-7F,
    -0x1.e978d4p-8F,  -0x1.c49ba6p-8F,  -0x1.9fbe76p-8F,  -0x1.7ae148p-8F,
    -0x1.56041ap-8F,  -0x1.3126e8p-8F,  -0x1.0c49bap-8F,  -0x1.ced914p-9F,
    -0x1.851eb8p-9F,  -0x1.3b645ap-9F,  -0x1.e353f8p-10F, -0x1.4fdf3ap-10F,
    -0x1.eecbfep-11F, -0x1.b3d07cp-11F, -0x1.78d5p-11F,   -0x1.3dd982p-11F,
    -0x1.02de02p-11F, -0x1.8fc506p-12F, -0x1.19ce0ap-12F, -0x1.47ae16p-13F,
    -0x1.743e96p-14F, -0x1.15df66p-14F, -0x1.6f0068p-15F, -0x1.64840cp-16F,
    -0x1.040bfep-17F, -0x1.b43528p-19F, -0x1.27476ep-21F, 0.0F,
    0x1.27476ep-21F,  0x1.b43528p-19F,  0x1.040bfep-17F,  0x1.64840cp-16F,
    0x1.6f0068p-15F,  0x1.15df66p-14F,  0x1.743e96p-14F,  0x1.47ae16p-13F,
    0x1.19ce0ap-12F,  0x1.8fc506p-12F,  0x1.02de02p-11F,  0x1.3dd982p-11F,
    0x1.78d5p-11F,    0x1.b3d07cp-11F,  0x1.eecbfep-11F,  0x1.4fdf3ap-10F,
    0x1.e353f8p-10F,  0x1.3b645ap-9F,   0x1.851eb8p-9F,   0x1.ced914p-9F,
    0x1.0c49bap-8F,   0x1.3126e8p-8F,   0x1.56041ap-8F,   0x1.7ae148p-8F,
    0x1.9fbe76p-8F,   0x1.c49ba6p-8F,   0x1.e978d4p-8F,   0x1.072b02p-7F,
    0x1.19999ap-7F,   0x1.2c083p-7F,    0x1.3e76c8p-7F,   0x1.75c29p-7F,
    0x1.d1eb86p-7F,   0x1.170a3ep-6F,   0x1.451ebap-6F,   0x1.733334p-6F,
    0x1.a147aep-6F,   0x1.cf5c2ap-6F,   0x1.fd70a4p-6F,   0x1.15c29p-5F,
    0x1.2ccccep-5F,   0x1.43d70ap-5F,   0x1.5ae146p-5F,   0x1.71eb86p-5F,
    0x1.88f5c2p-5F,   0x1.ap-5F,        0x1.b70a3ep-5F,   0x1.ce147ap-5F,
    0x1.e51ebap-5F,   0x1.fc28f6p-5F,   0x1.09999ap-4F,   0x1.151ebap-4F,
    0x1.20a3d6p-4F,   0x1.2c28f6p-4F,   0x1.37ae14p-4F,   0x1.433334p-4F,
    0x1.4eb854p-4F,   0x1.5a3d7p-4F,    0x1.65c29p-4F,    0x1.7147aep-4F,
    0x1.7ccccep-4F,   0x1.8851eep-4F,   0x1.93d70ap-4F,   0x1.b66668p-4F,
    0x1.fp-4F,        0x1.14ccccp-3F,   0x1.31999ap-3F,   0x1.4e6666p-3F,
    0x1.6b3334p-3F,   0x1.88p-3F,       0x1.a4ccccp-3F,   0x1.c1999ap-3F,
    0x1.de6666p-3F,   0x1.fb3332p-3F,   0x1.0cp-2F,       0x1.1a6668p-2F,
    0x1.28ccccp-2F,   0x1.373334p-2F,   0x1.459998p-2F,   0x1.54p-2F,
    0x1.626666p-2F,   0x1.70ccccp-2F,   0x1.7f3334p-2F,   0x1.8d9998p-2F,
    0x1.9cp-2F,       0x1.aa6666p-2F,   0x1.b8ccccp-2F,   0x1.c73334p-2F,
    0x1.d59998p-2F,   0x1.e4p-2F,       0x1.f26664p-2F,   0x1.006666p-1F,
    0x1.079998p-1F,   0x1.0eccccp-1F,   0x1.16p-1F,       0x1.1d3334p-1F,
    0x1.246668p-1F,   0x1.2b999ap-1F,   0x1.32ccccp-1F,   0x1.3ap-1F,
    0x1.413334p-1F,   0x1.486668p-1F,   0x1.4f999ap-1F,   0x1.56ccccp-1F,
    0x1.5ep-1F,       0x1.653334p-1F,   0x1.6c6668p-1F,   0x1.73999ap-1F,
    0x1.7accccp-1F,   0x1.82p-1F,       0x1.893334p-1F,   0x1.906666p-1F,
    0x1.97999ap-1F,   0x1.9eccccp-1F,   0x1.a6p-1F,       0x1.ad3334p-1F,
    0x1.b46666p-1F,   0x1.bb999ap-1F,   0x1.c2ccccp-1F,   0x1.cap-1F,
    0x1.d13334p-1F,   0x1.d86666p-1F,   0x1.df999ap-1F,   0x1.e6ccccp-1F,
    0x1.eep-1F,       0x1.f53334p-1F,   0x1.fc6666p-1F,   0x1p+0F};

}  // namespace quire
