// Which instruction-set levels this program has and this processor runs, and how a table for each
// of them is made. For op_table.cpp and limit_table.cpp alone, which are compiled with the build's
// choice of levels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>

#include "kernels/op_table.h"
#include "kernels/processor.h"

namespace quire {

// Of the levels above ref, the only one of this build (CMake's QUIRE_LEVELS), if not all.
#if defined(QUIRE_ONLY_LEVEL)
inline constexpr std::optional<IsaLevel> kOnlyLevel = IsaLevel::QUIRE_ONLY_LEVEL;
#else
inline constexpr std::optional<IsaLevel> kOnlyLevel = std::nullopt;
#endif

constexpr bool is_built(IsaLevel level) {
  return level == IsaLevel::kRef || !kOnlyLevel || level == *kOnlyLevel;
}

// Whether a level of the build uses something of `level`, or of what `replaced_by` replaces.
constexpr bool is_used(IsaLevel level) { return !kOnlyLevel || *kOnlyLevel >= level; }
constexpr bool is_used_below(IsaLevel replaced_by) {
  return !kOnlyLevel || *kOnlyLevel < replaced_by;
}

// In a build that emulates wide vectors and tiles, their levels run wherever avx2 does, and those
// below that it takes from the library where the processor has them.
inline bool can_run(IsaLevel level) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  const bool is_emulated = level >= IsaLevel::QUIRE_FIRST_EMULATED_LEVEL;
  return processor_has(is_emulated ? std::min(level, IsaLevel::kAvx2) : level);
#else
  return processor_has(level);
#endif
}

inline bool is_available(IsaLevel level) { return is_built(level) && can_run(level); }

template <class Table>
using TableOfLevels = std::array<Table, std::size(kIsaLevels)>;

// A level starts as a copy of the one below; set(level, table) overrides what it does better. Even
// a function that only sets pointers may use a level's instructions, so it runs only where they
// are; elsewhere the table is that of the level below and nobody asks for it.
template <class Table, class Set>
TableOfLevels<Table> make_table_of_levels(const Table& ref, const Set& set) {
  TableOfLevels<Table> tables;
  tables[0] = ref;
  for (std::size_t i = 1; i < tables.size(); ++i) {
    tables[i] = tables[i - 1];
    if (can_run(kIsaLevels[i])) set(kIsaLevels[i], tables[i]);
  }
  return tables;
}

}  // namespace quire
