// Weights on their way through shared memory: a warp's share of a product, four outputs by 256 numbers a piece.
//
// A product is a type: K, GROUPS, of(weights, layer), which(group, o). Constants without a value here are plan.py's.
#pragma once
#include "common.cuh"

namespace tf {

constexpr int THREADS = WARPS * 32, PIECE = 256, SLOT = 4 * PIECE * 2;

// Which pieces a warp multiplies, in its order of them.
template <typename Product>
struct Walk {
  static constexpr int PIECES = (Product::K + PIECE - 1) / PIECE;
  int group, piece;

  // The nth from its first.
  static __device__ __forceinline__ Walk from(int n) {
    const int first = blockIdx.x + threadIdx.x / 32 * gridDim.x;
    return {first + n / PIECES * int(gridDim.x) * WARPS, n % PIECES};
  }
  __device__ __forceinline__ bool goes_on() const { return group < Product::GROUPS; }
  __device__ __forceinline__ bool ends() const { return piece + 1 == PIECES; }
  __device__ __forceinline__ int k() const { return piece * PIECE + threadIdx.x % 32 * 8; }
  __device__ __forceinline__ void step() {
    if (!ends()) ++piece;
    else piece = 0, group += gridDim.x * WARPS;
  }
};

// A warp's part of the ring. A lane reads what it copied itself, so nobody waits for anybody.
struct Ring {
  unsigned at;

  static __device__ __forceinline__ Ring of(const void* memory) {
    return {shared_at(memory) + threadIdx.x / 32 * AHEAD * SLOT + threadIdx.x % 32 * 16};
  }

  // Where the warp's part begins, for something else while nothing is in it.
  __device__ __forceinline__ unsigned first() const { return at - threadIdx.x % 32 * 16; }

  template <typename Product>
  __device__ __forceinline__ void send(int slot, const bf16* weights, const Walk<Product>& to) const {
    if (to.goes_on() && to.k() < Product::K) {
#pragma unroll
      for (int o = 0; o < 4; ++o)
        copy_16(at + slot * SLOT + o * PIECE * 2, weights + size_t(Product::which(to.group, o)) * Product::K + to.k());
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // The first pieces of the product that comes next: they come while blocks wait for one another.
  template <typename Product>
  __device__ __forceinline__ void start(const bf16* weights) const {
#pragma unroll
    for (int n = 0; n < AHEAD; ++n) send(n, weights, Walk<Product>::from(n));
  }

  // What was sent AHEAD pieces ago.
  __device__ __forceinline__ void arrived(uint4 (&to)[4], int slot) const {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
#pragma unroll
    for (int o = 0; o < 4; ++o)
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(to[o].x), "=r"(to[o].y), "=r"(to[o].z), "=r"(to[o].w)
                   : "r"(at + slot * SLOT + o * PIECE * 2)
                   : "memory");
  }
};

}  // namespace tf
