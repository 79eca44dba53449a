// What the algorithms cost on this machine, measured once in a process. It decides which of them
// run, never what they answer.
#pragma once

#include "descend_paths.hpp"
#include "dispatch.hpp"

namespace rpa {

struct CostTable {
  UpdateCosts update;  // in nanoseconds
  DescentPath descent;
};

// The table in use. The first call measures it, which takes about a millisecond.
const CostTable& cost_table();

// Uses another table from now on, in all threads; for tests and benchmarks.
void set_cost_table(const CostTable& table);

// Measures the table anew.
CostTable measure_cost_table();

}  // namespace rpa
