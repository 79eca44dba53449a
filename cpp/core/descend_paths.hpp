// The ways to descend a PairNode tree, one per instruction set. All find the same leaves.
#pragma once

#include <cstdint>
#include <span>

#include "node.hpp"

namespace rpa {

// Descends n masses >= 0 through a tree of 2^levels leaves whose node i has the sum sums[2 * i];
// n is at least the path's smallest batch. Returns whether some descent ended at an empty leaf:
// those must be done again by the rule of descend.hpp.
using Descend = bool (*)(const double* sums, int levels, const double* masses,
                         std::int64_t* indices, std::int64_t n);

bool descend_portable(const double*, int, const double*, std::int64_t*, std::int64_t);
bool descend_avx2(const double*, int, const double*, std::int64_t*, std::int64_t);
bool descend_avx512(const double*, int, const double*, std::int64_t*, std::int64_t);

struct DescentPath {
  const char* name;
  Descend run;
};

// The paths that this build has and this machine can run; the first is the portable one.
std::span<const DescentPath> descent_paths();

// Fewer descents than this leave most of the vectors' latency bare, so they take the portable path.
inline constexpr std::int64_t smallest_vector_batch = 12;

// Finds the leaf of each mass by the given path.
void descend_by(const DescentPath& path, const PairNode* nodes, std::int64_t padded,
                const double* masses, std::int64_t* indices, std::int64_t n);

}  // namespace rpa
