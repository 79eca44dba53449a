// What the update algorithms cost on this machine, measured once in a process. It decides which of
// them run, never what they answer.
#pragma once

#include "dispatch.hpp"

namespace rpa {

// The costs in use, in nanoseconds. The first call measures them, which takes about a millisecond.
const UpdateCosts& cost_table();

// Uses other costs from now on, in all threads; for tests and benchmarks.
void set_cost_table(const UpdateCosts& costs);

// Measures the costs anew.
UpdateCosts measure_cost_table();

}  // namespace rpa
