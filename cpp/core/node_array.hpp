// The memory of a tree: zeroed lazily by the kernel, so that what is never touched costs nothing.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace rpa {

// Owns `count` nodes of zero bytes, aligned to a page. Throws std::bad_alloc.
template <class Node>
class NodeArray {
 public:
  explicit NodeArray(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(Node)) {
    // Large arrays start at a multiple of the size of a huge page and ask for such pages, or the
    // random accesses of a batch miss the TLB as often as the cache.
    const bool large = bytes_ >= 2 * huge_page;
    mapped_ = bytes_ + (large ? huge_page : 0);
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::bad_alloc();
    auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    if (large) address = (address + huge_page - 1) & ~(huge_page - 1);
    nodes_ = reinterpret_cast<Node*>(address);
#ifdef MADV_HUGEPAGE
    // It only helps: a kernel that refuses leaves small pages.
    if (large) madvise(nodes_, bytes_, MADV_HUGEPAGE);
#endif
  }
  ~NodeArray() { munmap(mapping_, mapped_); }
  NodeArray(const NodeArray&) = delete;
  NodeArray& operator=(const NodeArray&) = delete;

  Node* data() const { return nodes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t huge_page = std::size_t{1} << 21;

  std::size_t bytes_;
  std::size_t mapped_;
  void* mapping_;
  Node* nodes_;
};

}  // namespace rpa
