/// Neighbouring elements that move in one access of up to 16 bytes, and how an array that begins
/// or ends anywhere is cut into them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <cuda_runtime.h>

#include "kernels/cuda/device.cuh"

namespace zenflow::kernels {

/// The alignment makes copying one a single instruction.
template <class Element, unsigned kWidth>
struct alignas(sizeof(Element) * kWidth) Pack {
  Element at[kWidth];
};

/// How many elements 16 bytes hold.
template <class Element>
__host__ __device__ constexpr unsigned full_pack() {
  return 16 / sizeof(Element);
}

template <class T>
__device__ bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(T) == 0;
}

/// Precondition of both: the address is a multiple of the pack's size.
template <unsigned kWidth, class Element>
__device__ Pack<Element, kWidth> load_pack(const Element* from) {
  assert((is_aligned<Pack<Element, kWidth>>(from)) && "misaligned address");
  return *reinterpret_cast<const Pack<Element, kWidth>*>(from);
}
template <class Element, unsigned kWidth>
__device__ void store_pack(Element* to, const Pack<Element, kWidth>& pack) {
  assert((is_aligned<Pack<Element, kWidth>>(to)) && "misaligned address");
  *reinterpret_cast<Pack<Element, kWidth>*>(to) = pack;
}

/// An array of [n] whose first element is number `lead` of its pack.
struct PackedRange {
  std::size_t n;
  unsigned lead;
};

/// The part of a pack that lies in the array: only the first and the last can be partial.
struct Portion {
  std::size_t begin;
  unsigned count;
};

template <unsigned kWidth>
__host__ __device__ constexpr std::size_t pack_count(PackedRange range) {
  return range.n == 0 ? 0 : (range.lead + range.n + kWidth - 1) / kWidth;
}

/// The elements that lie in pack number `pack`; none from pack_count() on.
template <unsigned kWidth>
__device__ Portion portion(PackedRange range, std::size_t pack) {
  const std::size_t first = pack * kWidth;
  const std::size_t end = range.lead + range.n;
  const std::size_t from = first < range.lead ? range.lead : first;
  const std::size_t to = first + kWidth < end ? first + kWidth : end;
  if (from >= to) return {0, 0};
  return {from - range.lead, static_cast<unsigned>(to - from)};
}

template <unsigned kWidth, class Element>
__host__ __device__ unsigned lead_of(const Element* array) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(array) / sizeof(Element) % kWidth);
}

/// Calls run.operator()<kWidth>(range) if packs of kWidth elements lie alike in all `arrays` of
/// [n], so that each moves at once, and run.operator()<1>(range) otherwise.
template <unsigned kWidth, class Run, class... Elements>
void with_packs(std::size_t n, const Run& run, const Elements*... arrays) {
  const std::initializer_list<unsigned> leads{lead_of<kWidth>(arrays)...};
  const unsigned lead = *leads.begin();
  for (const unsigned other : leads) {
    if (other != lead) return run.template operator()<1>(PackedRange{n, 0});
  }
  run.template operator()<kWidth>(PackedRange{n, lead});
}

}  // namespace zenflow::kernels
