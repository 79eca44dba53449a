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
  explicit NodeArray(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(Node)),
        nodes_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (nodes_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~NodeArray() { munmap(nodes_, bytes_); }
  NodeArray(const NodeArray&) = delete;
  NodeArray& operator=(const NodeArray&) = delete;

  Node* data() const { return static_cast<Node*>(nodes_); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* nodes_;
};

}  // namespace rpa
