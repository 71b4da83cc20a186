// Where all blocks of a grid wait for one another. They must all be on the device: a block a multiprocessor, no more.
#pragma once
#include "common.cuh"

namespace tf {

// About a second. Whoever waits longer gives up, and so does everyone, now and in later launches: never a server that hangs.
constexpr long long PATIENCE = 1ll << 31;

__device__ __forceinline__ unsigned long long seen(const unsigned long long* at) {
  unsigned long long value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

// turns: arrivals so far, in a line of memory; in the next, whether someone gave up. Both begin as 0, and are left to the
// next launch as they are: it has as many blocks, and all meetings were complete.
struct Meeting {
  static constexpr int GAVE_UP = 16;
  unsigned long long* turns;
  unsigned long long due;

  __device__ __forceinline__ explicit Meeting(const int* memory)
      : turns(reinterpret_cast<unsigned long long*>(const_cast<int*>(memory))), due(0) {}

  __device__ __forceinline__ bool given_up() const { return seen(turns + GAVE_UP); }

  // What the block wrote before is there for whoever meets it.
  __device__ __forceinline__ void arrive() {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      const unsigned long long before = atomicAdd(turns, 1ull);
      due = due ? due + gridDim.x : (before / gridDim.x + 1) * gridDim.x;
    }
  }

  __device__ __forceinline__ void wait() {
    if (threadIdx.x == 0) {
      const long long began = clock64();
      while (seen(turns) < due && !given_up())
        if (clock64() - began > PATIENCE) atomicExch(turns + GAVE_UP, 1ull);
      __threadfence();
    }
    __syncthreads();
  }

  __device__ __forceinline__ void meet() {
    arrive();
    wait();
  }
};

}  // namespace tf
