// The parallel kernels of one backend (RPA_TESTED) against the host's tree, bit by bit.
#include <cstdio>
#include <string_view>

#include "device_checks.hpp"

#if defined(RPA_TESTED_ACC) || defined(RPA_TESTED_ON_FAKE_DEVICE)
#include "accelerator.hpp"
#endif

namespace rpa::RPA_TESTED {
std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity);
}

using namespace rpa;
using rpa::RPA_TESTED::make_device_tree;

int main(int argc, char** argv) {
#ifdef RPA_TESTED_ACC
  if (rpa::acc::device_problem().empty()) {
    std::printf("runs on %s\n", rpa::acc::accelerator().name.c_str());
    CHECK(rpa::acc::kernels_run_on_device());
  } else {
    std::printf("no GPU (%s): tests the host fallback\n", rpa::acc::device_problem().c_str());
    CHECK(!rpa::acc::kernels_run_on_device());
  }
#endif
#ifdef RPA_TESTED_ON_FAKE_DEVICE
  CHECK(rpa::acc::accelerator().name == "fake device");
#endif
  updates_match_the_host(make_device_tree,
                         {1, 2, 3, 5, 7, 8, 11, 33, 50, 64, 100, 1000, 1023, 1025}, 20, 300);
  const bool large = argc > 1 && std::string_view(argv[1]) == "large";
  if (large) updates_match_the_host(make_device_tree, {40000, 1 << 16}, 5, 9000);
  assign_matches_the_host(make_device_tree, {1, 2, 5, 64, 1000});
  long_batches_go_in_pieces(make_device_tree);
  destroyed_trees_leave_the_others_alone(make_device_tree);
  calls_move_only_their_batch(make_device_tree);
}
