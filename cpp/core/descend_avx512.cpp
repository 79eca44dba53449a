// Eight descents to a vector. Compiled with -mavx512f and called only where the machine has it.
#include <immintrin.h>

#include "descend_block.hpp"
#include "descend_paths.hpp"

namespace {

struct Avx512 {
  using Reals = __m512d;
  using Indices = __m512i;
  using Mask = __mmask8;
  static constexpr int width = 8;
  static constexpr int groups = 16;

  static Reals broadcast(double value) { return _mm512_set1_pd(value); }
  static Indices root() { return _mm512_set1_epi64(1); }
  static Reals load(const double* from) { return _mm512_loadu_pd(from); }
  static void store(std::int64_t* to, Indices node, std::int64_t first) {
    _mm512_storeu_si512(to, _mm512_sub_epi64(node, _mm512_set1_epi64(first)));
  }
  // from[Scale * node]; the instruction scales by 8 bytes.
  template <int Scale>
  static Reals gather(const double* from, Indices node) {
    return _mm512_i64gather_pd(_mm512_slli_epi64(node, __builtin_ctz(Scale)), from, 8);
  }
  static Reals add(Reals a, Reals b) { return _mm512_add_pd(a, b); }
  static Reals unless_past(Reals total, Reals given) {
    const Mask past = _mm512_cmp_pd_mask(given, total, _CMP_GE_OQ);
    return _mm512_mask_blend_pd(past, given, broadcast(__builtin_inf()));
  }
  static Mask step(Reals left, Reals& mass, Indices& node) {
    const Mask right = _mm512_cmp_pd_mask(left, mass, _CMP_LE_OQ);
    const Indices twice = _mm512_add_epi64(node, node);
    mass = _mm512_mask_sub_pd(mass, right, mass, left);
    node = _mm512_mask_add_epi64(twice, right, twice, root());
    return right;
  }
  static Reals left_below(const double* sums, Indices node, Mask right, Reals first) {
    return _mm512_mask_blend_pd(right, first, gather<8>(sums + 4, node));
  }
  static bool any_zero(Reals values) {
    return _mm512_cmp_pd_mask(values, _mm512_setzero_pd(), _CMP_EQ_OQ) != 0;
  }
};

}  // namespace

namespace rpa {

bool descend_avx512(const double* sums, int levels, const double* masses, std::int64_t* indices,
                    std::int64_t n) {
  return descend_blocks<Avx512>(sums, levels, masses, indices, n);
}

}  // namespace rpa
