// One descent to a "vector": for every machine, and for batches too small for real vectors.
#include "descend_block.hpp"
#include "descend_paths.hpp"

namespace {

// Masks are 0 or all ones, and bits are selected by them: a branch would be a coin toss.
struct Portable {
  using Reals = double;
  using Indices = std::int64_t;
  using Mask = std::int64_t;
  static constexpr int width = 1;

  static std::int64_t bits(double value) { return __builtin_bit_cast(std::int64_t, value); }
  static double real(std::int64_t bits) { return __builtin_bit_cast(double, bits); }

  static Reals broadcast(double value) { return value; }
  static Indices root() { return 1; }
  static Reals load(const double* from) { return *from; }
  static void store(std::int64_t* to, Indices node, std::int64_t first) { *to = node - first; }
  template <int Scale>
  static Reals gather(const double* from, Indices node) {
    return from[Scale * node];
  }
  static Mask not_above(Reals left, Reals mass) { return -std::int64_t{!(left > mass)}; }
  static Reals select(Mask where, Reals then, Reals otherwise) {
    return real((bits(then) & where) | (bits(otherwise) & ~where));
  }
  static Reals add(Reals a, Reals b) { return a + b; }
  static Reals subtract_where(Mask where, Reals a, Reals b) { return a - real(bits(b) & where); }
  static Indices child(Indices node, Mask right) { return 2 * node - right; }
  static bool any_zero(Reals value) { return value == 0.0; }
};

}  // namespace

namespace rpa {

bool descend_portable(const double* sums, int levels, const double* masses, std::int64_t* indices,
                      std::int64_t n) {
  return descend_blocks<Portable>(sums, levels, masses, indices, n);
}

}  // namespace rpa
