// Where all blocks of a grid wait for one another. They must all be on the device: a block a multiprocessor, no more.
#pragma once
#include "common.cuh"

namespace tf {

// About a second. Whoever waits longer gives up, and so does everyone: a draft is lost, never the server.
constexpr long long PATIENCE = 1ll << 31;
constexpr int GAVE_UP = 32;

__device__ __forceinline__ unsigned seen(const unsigned* at) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// turns: arrivals so far, and a line further whether someone gave up; both begin as 0. `due`: arrivals that end this
// thread's last wait.
__device__ __forceinline__ void meet(unsigned* turns, unsigned& due) {
  __syncthreads();
  due += gridDim.x;
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(turns, 1u);
    const long long began = clock64();
    while (seen(turns) < due && !seen(turns + GAVE_UP))
      if (clock64() - began > PATIENCE) atomicExch(turns + GAVE_UP, 1u);
    __threadfence();
  }
  __syncthreads();
}

}  // namespace tf
