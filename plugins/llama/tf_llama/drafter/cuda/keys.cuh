// Attention of single rows: a block takes a row's keys of one key head, or a part of them, its warps 32 keys at a time.
#pragma once
#include "dots.cuh"

namespace tf {

// Into how many parts the keys are cut: one block reads a thousand in a few microseconds, and parts must be summed.
__device__ __forceinline__ int parts_of(int keys) { return min(MOST_PARTS, max(1, (keys + KEYS_A_PART - 1) / KEYS_A_PART)); }

// Keys or values of one head: the first `base` in the cache, the others in what this kernel writes.
template <int SIZE>
struct Lane {
  const bf16 *cache, *written;
  int base;
  __device__ __forceinline__ const bf16* at(int key) const {
    return key < base ? cache + size_t(key) * SIZE : written + size_t(key - base) * SIZE;
  }
};

// query [GROUP][SIZE] in shared memory, scaled for powers of two. sums [GROUP][SIZE] and weights [GROUP][2] of the keys
// [begin, end): not divided yet, with the greatest score and the sum of powers. memory: float [WARPS][GROUP][SIZE + 2].
template <int GROUP, int SIZE>
__device__ __forceinline__ void attend(const float* query, Lane<SIZE> keys, Lane<SIZE> values, int begin, int end,
                                       float* memory, float* sums, float* weights) {
  constexpr int EACH = SIZE / 32, PART = SIZE + 2;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (begin >= end) {  // a row with fewer keys than another of its pass
    for (int at = threadIdx.x; at < GROUP * SIZE; at += THREADS) sums[at] = 0.f;
    for (int g = threadIdx.x; g < GROUP; g += THREADS) weights[g * 2] = -infinite(), weights[g * 2 + 1] = 0.f;
    return;
  }
  float output[GROUP][EACH] = {}, greatest[GROUP], total[GROUP] = {};
#pragma unroll
  for (int g = 0; g < GROUP; ++g) greatest[g] = -infinite();
  for (int tile = begin + warp * 32; tile < end; tile += WARPS * 32) {
    const int key = min(tile + lane, end - 1);
    const bf16* row = keys.at(key);
    float score[GROUP] = {};
#pragma unroll 4
    for (int d = 0; d < SIZE; d += 8) {
      // What other blocks wrote is in the second cache alone.
      const uint4* piece = reinterpret_cast<const uint4*>(row + d);
      float k[8];
      unpack(k, key < keys.base ? *piece : __ldcg(piece));
#pragma unroll
      for (int g = 0; g < GROUP; ++g)
#pragma unroll
        for (int i = 0; i < 8; ++i) score[g] = fmaf(query[g * SIZE + d + i], k[i], score[g]);
    }
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      if (tile + lane >= end) score[g] = -infinite();
      float most = score[g];
#pragma unroll
      for (int by = 16; by; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, by));
      most = fmaxf(most, greatest[g]);
      const float shrink = power_of_two(greatest[g] - most);
      greatest[g] = most;
      score[g] = power_of_two(score[g] - most);
      total[g] = total[g] * shrink + score[g];
#pragma unroll
      for (int e = 0; e < EACH; ++e) output[g][e] *= shrink;
    }
    const int count = min(32, end - tile);
#pragma unroll 8
    for (int j = 0; j < 32; ++j) {
      const int other = tile + min(j, count - 1);
      const unsigned* piece = reinterpret_cast<const unsigned*>(values.at(other)) + lane * (EACH / 2);
      float v[EACH];
#pragma unroll
      for (int e = 0; e < EACH; e += 2) {
        const unsigned two = other < values.base ? piece[e / 2] : __ldcg(piece + e / 2);
        v[e] = low(two);
        v[e + 1] = high(two);
      }
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const float share = __shfl_sync(0xffffffffu, score[g], j);
#pragma unroll
        for (int e = 0; e < EACH; ++e) output[g][e] = fmaf(share, v[e], output[g][e]);
      }
    }
  }
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    float* part = memory + (warp * GROUP + g) * PART;
#pragma unroll
    for (int by = 16; by; by /= 2) total[g] += __shfl_xor_sync(0xffffffffu, total[g], by);
#pragma unroll
    for (int e = 0; e < EACH; ++e) part[lane * EACH + e] = output[g][e];
    if (lane == 0) part[SIZE] = greatest[g], part[SIZE + 1] = total[g];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < GROUP * SIZE; at += THREADS) {
    const int g = at / SIZE, d = at % SIZE;
    float most = -infinite(), sum = 0.f, all = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) most = fmaxf(most, memory[(w * GROUP + g) * PART + SIZE]);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float* part = memory + (w * GROUP + g) * PART;
      const float share = power_of_two(part[SIZE] - most);
      sum = fmaf(share, part[d], sum);
      all = fmaf(share, part[SIZE + 1], all);
    }
    sums[g * SIZE + d] = sum;
    if (d == 0) weights[g * 2] = most, weights[g * 2 + 1] = all;
  }
  __syncthreads();
}

}  // namespace tf
