#include "tests/fuzz/memory_meter.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

// Signed: a thread may free what another one has taken.
thread_local std::ptrdiff_t live = 0;
thread_local std::ptrdiff_t peak = 0;

void* take(std::size_t size) noexcept {
  void* taken = std::malloc(std::max<std::size_t>(size, 1));
  if (taken != nullptr) {
    live += static_cast<std::ptrdiff_t>(malloc_usable_size(taken));
    peak = std::max(peak, live);
  }
  return taken;
}

void* take_or_throw(std::size_t size) {
  void* taken = take(size);
  if (taken == nullptr) throw std::bad_alloc{};
  return taken;
}

void give_back(void* taken) noexcept {
  if (taken != nullptr) live -= static_cast<std::ptrdiff_t>(malloc_usable_size(taken));
  std::free(taken);
}

}  // namespace

// All forms but the aligned ones, which keep to themselves.
void* operator new(std::size_t size) {
  return take_or_throw(size);
}
void* operator new[](std::size_t size) {
  return take_or_throw(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return take(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return take(size);
}
void operator delete(void* taken) noexcept {
  give_back(taken);
}
void operator delete[](void* taken) noexcept {
  give_back(taken);
}
void operator delete(void* taken, std::size_t) noexcept {
  give_back(taken);
}
void operator delete[](void* taken, std::size_t) noexcept {
  give_back(taken);
}
void operator delete(void* taken, const std::nothrow_t&) noexcept {
  give_back(taken);
}
void operator delete[](void* taken, const std::nothrow_t&) noexcept {
  give_back(taken);
}

namespace baton::fuzz {

memory_meter::memory_meter() noexcept {
  live = 0;
  peak = 0;
}

std::size_t memory_meter::peak_bytes() const noexcept {
  return static_cast<std::size_t>(peak);
}

}  // namespace baton::fuzz
