// One descent to a "vector": for every machine, and for batches too small for real vectors.
#include "descend_block.hpp"
#include "descend_paths.hpp"

namespace {

// Without branches: which way to go is a coin toss.
struct Portable {
  using Reals = double;
  using Indices = std::int64_t;
  using Mask = std::int64_t;
  static constexpr int width = 1;
  static constexpr int groups = 64;

  static Reals broadcast(double value) { return value; }
  static Indices root() { return 1; }
  static Reals load(const double* from) { return *from; }
  static void store(std::int64_t* to, Indices node, std::int64_t first) { *to = node - first; }
  template <int Scale>
  static Reals gather(const double* from, Indices node) {
    return from[Scale * node];
  }
  static Reals add(Reals a, Reals b) { return a + b; }
  static Reals unless_past(Reals total, Reals given) {
    return given >= total ? __builtin_inf() : given;
  }
  // The bits of what is not negative grow with it; those of a negative number are above them all.
  static Mask step(Reals left, Reals& mass, Indices& node) {
    const auto rest = __builtin_bit_cast(std::uint64_t, mass - left);
    const auto whole = __builtin_bit_cast(std::uint64_t, mass);
    const Mask right = 1 + (static_cast<std::int64_t>(rest) >> 63);
    mass = __builtin_bit_cast(double, rest <= whole ? rest : whole);
    node = 2 * node + right;
    return right;
  }
  static Reals left_below(const double* sums, Indices node, Mask right, Reals) {
    return sums[8 * node + 4 * right];
  }
  static bool any_zero(Reals value) { return value == 0.0; }
};

}  // namespace

namespace rpa {

bool descend_portable(const double* sums, int levels, const double* masses, std::int64_t* indices,
                      std::int64_t n) {
  return descend_blocks<Portable>(sums, levels, masses, indices, n);
}

}  // namespace rpa
