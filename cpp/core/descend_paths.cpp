#include "descend_paths.hpp"

#include <bit>
#include <vector>

#include "descend.hpp"

namespace rpa {

std::span<const DescentPath> descent_paths() {
  static const std::vector<DescentPath> paths = [] {
    std::vector<DescentPath> found = {{"portable", descend_portable}};
#ifdef RPA_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", descend_avx2});
    if (__builtin_cpu_supports("avx512f")) found.push_back({"avx512", descend_avx512});
#endif
    return found;
  }();
  return paths;
}

void descend_by(const DescentPath& path, const PairNode* nodes, std::int64_t padded,
                const double* masses, std::int64_t* indices, std::int64_t n) {
  if (n == 0) return;
  const int levels = std::countr_zero(static_cast<std::uint64_t>(padded));
  const Descend run = n < smallest_vector_batch ? descend_portable : path.run;
  if (!run(&nodes->sum, levels, masses, indices, n)) return;
  for (std::int64_t j = 0; j < n; ++j) {
    if (nodes[padded + indices[j]].sum == 0.0) {
      descend(nodes, padded, masses + j, indices + j, 1);
    }
  }
}

}  // namespace rpa
