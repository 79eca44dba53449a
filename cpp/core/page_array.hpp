// The memory of a large array: zeroed lazily by the kernel, so that what is never touched costs
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#else
#include <cstring>
#endif

namespace rpa {

// Owns `count` items of zero bytes, aligned to a page. Throws std::bad_alloc.
template <class Item>
class PageArray {
 public:
  explicit PageArray(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(Item)) {
    // Large arrays start at a multiple of the size of a huge page and ask for such pages, or the
    // random accesses of a batch miss the TLB as often as the cache.
    const bool large = bytes_ >= 2 * huge_page;
#if __has_include(<sys/mman.h>)
    mapped_ = bytes_ + (large ? huge_page : 0);
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::bad_alloc();
    auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    if (large) address = (address + huge_page - 1) & ~(huge_page - 1);
    items_ = reinterpret_cast<Item*>(address);
#ifdef MADV_HUGEPAGE
    // It only helps: a kernel that refuses leaves small pages.
    if (large) madvise(items_, bytes_, MADV_HUGEPAGE);
#endif
#else
    alignment_ = std::align_val_t{large ? huge_page : std::size_t{4096}};
    mapping_ = ::operator new(bytes_, alignment_);
    items_ = static_cast<Item*>(std::memset(mapping_, 0, bytes_));
#endif
  }
  ~PageArray() {
#if __has_include(<sys/mman.h>)
    munmap(mapping_, mapped_);
#else
    ::operator delete(mapping_, alignment_);
#endif
  }
  PageArray(const PageArray&) = delete;
  PageArray& operator=(const PageArray&) = delete;

  Item* data() const { return items_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t huge_page = std::size_t{1} << 21;

  std::size_t bytes_;
#if __has_include(<sys/mman.h>)
  std::size_t mapped_;
#else
  std::align_val_t alignment_;
#endif
  void* mapping_;
  Item* items_;
};

}  // namespace rpa
