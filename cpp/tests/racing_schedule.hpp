// The same schedule with the mistake that the tree invites: the loop over the levels is parallel
// too. The tests show that it is caught.
#pragma once

#include "adversarial_schedule.hpp"

#undef RPA_LEVELS
#define RPA_LEVELS(i, first, last) RPA_FOR(i, first, last)
