// The ways to recompute the nodes above a batch of leaves. The result is the same bits.
#pragma once

namespace rpa {

enum class UpdateAlgorithm {
  automatic,    // the cheapest for this batch and tree
  per_element,  // O(k log n): leaf to root, one element after the other
  touched,      // O(k log n): the ancestors of the batch, level by level
  rebuild,      // O(k + n): all nodes, level by level
};

}  // namespace rpa
