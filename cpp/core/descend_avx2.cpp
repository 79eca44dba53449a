// Four descents to a vector. Compiled with -mavx2 and called only where the machine has it.
#include <immintrin.h>

#include "descend_block.hpp"
#include "descend_paths.hpp"

namespace {

struct Avx2 {
  using Reals = __m256d;
  using Indices = __m256i;
  using Mask = __m256d;
  static constexpr int width = 4;
  static constexpr int groups = 16;

  static Reals broadcast(double value) { return _mm256_set1_pd(value); }
  static Indices root() { return _mm256_set1_epi64x(1); }
  static Reals load(const double* from) { return _mm256_loadu_pd(from); }
  static void store(std::int64_t* to, Indices node, std::int64_t first) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_sub_epi64(node, _mm256_set1_epi64x(first)));
  }
  // from[Scale * node]; the instruction scales by 8 bytes.
  template <int Scale>
  static Reals gather(const double* from, Indices node) {
    return _mm256_i64gather_pd(from, _mm256_slli_epi64(node, __builtin_ctz(Scale)), 8);
  }
  static Reals add(Reals a, Reals b) { return _mm256_add_pd(a, b); }
  static Reals unless_past(Reals total, Reals given) {
    const Reals past = _mm256_cmp_pd(given, total, _CMP_GE_OQ);
    return _mm256_blendv_pd(given, broadcast(__builtin_inf()), past);
  }
  // A blend goes by signs: of those to the left of which less than nothing would be left.
  static Mask step(Reals left, Reals& mass, Indices& node) {
    const Reals rest = _mm256_sub_pd(mass, left);
    mass = _mm256_blendv_pd(rest, mass, rest);
    const Indices goes_left = _mm256_srli_epi64(_mm256_castpd_si256(rest), 63);
    const Indices right = _mm256_add_epi64(_mm256_add_epi64(node, node), root());
    node = _mm256_sub_epi64(right, goes_left);
    return rest;
  }
  static Reals left_below(const double* sums, Indices node, Mask rest, Reals first) {
    return _mm256_blendv_pd(gather<8>(sums + 4, node), first, rest);
  }
  static bool any_zero(Reals values) {
    return _mm256_movemask_pd(_mm256_cmp_pd(values, _mm256_setzero_pd(), _CMP_EQ_OQ)) != 0;
  }
};

}  // namespace

namespace rpa {

bool descend_avx2(const double* sums, int levels, const double* masses, std::int64_t* indices,
                  std::int64_t n) {
  return descend_blocks<Avx2>(sums, levels, masses, indices, n);
}

}  // namespace rpa
