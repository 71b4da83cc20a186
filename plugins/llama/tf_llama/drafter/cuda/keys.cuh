// Attention of single rows: a block takes a row's keys of one key head, or a part of them, its warps a tile at a time.
#pragma once
#include "dots.cuh"

namespace tf {

// Keys or values of one head: the first `base` in the cache, the others in what this kernel writes.
template <int SIZE>
struct Lane {
  const bf16 *cache, *written;
  int base;
  __device__ __forceinline__ const bf16* at(int key) const {
    return key < base ? cache + size_t(key) * SIZE : written + size_t(key - base) * SIZE;
  }
};

// A warp's keys and, behind them, their values, in its part of the ring. Pieces of 16 bytes are swapped by the key's
// number, so that eight keys use all banks.
template <int SIZE>
struct Tile {
  static constexpr int KEYS = AHEAD * SLOT / (SIZE * 4), PIECES = SIZE / 8, EACH = SIZE / 32, LANES = 32 / KEYS;
  static_assert(KEYS * LANES == 32, "lanes share the keys evenly");
  unsigned at;

  __device__ __forceinline__ unsigned piece(int which, int key, int n) const {
    return at + ((which * KEYS + key) * PIECES + (n ^ key % 8)) * 16;
  }
  __device__ __forceinline__ void send(const Lane<SIZE>& keys, const Lane<SIZE>& values, int first, int end) const {
#pragma unroll 4
    for (int n = threadIdx.x % 32; n < KEYS * PIECES; n += 32) {
      const int key = n / PIECES, from = min(first + key, end - 1);
      copy_16(piece(0, key, n % PIECES), keys.at(from) + n % PIECES * 8);
      copy_16(piece(1, key, n % PIECES), values.at(from) + n % PIECES * 8);
    }
  }
  __device__ __forceinline__ void arrived() const {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
  }
  // The next eight numbers of the lane's key, from the nth.
  __device__ __forceinline__ void key(float (&to)[8], int lane, int n) const {
    uint4 eight;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                 : "r"(piece(0, lane / LANES, n)));
    unpack(to, eight);
  }
  // The lane's numbers of a value.
  __device__ __forceinline__ void value(float (&to)[EACH], int lane, int key) const {
#pragma unroll
    for (int e = 0; e < EACH; e += 2) {
      const int number = lane * EACH + e;
      unsigned two;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(two) : "r"(piece(1, key, number / 8) + number % 8 * 2));
      to[e] = low(two), to[e + 1] = high(two);
    }
  }
};

// Into how many parts keys are cut: so that every warp of a block has a tile, up to `most`, since parts must be summed.
template <int SIZE>
__device__ __forceinline__ int parts_of(int keys, int most) {
  constexpr int EACH = WARPS * Tile<SIZE>::KEYS;
  return min(most, (keys + EACH - 1) / EACH);
}

// query [GROUP][SIZE] in shared memory, scaled for powers of two, there once ready() has run. sums [GROUP][SIZE] and
// weights [GROUP][2] of the keys [begin, end): not divided yet, with the greatest score and the sum of powers. memory: float
// [WARPS][GROUP][SIZE + 2].
template <int GROUP, int SIZE, typename Ready>
__device__ __forceinline__ void attend(const Tile<SIZE>& held, const float* query, Lane<SIZE> keys, Lane<SIZE> values,
                                       int begin, int end, float* memory, float* sums, float* weights, Ready ready) {
  using Keys = Tile<SIZE>;
  constexpr int EACH = Keys::EACH, LANES = Keys::LANES, PART = SIZE + 2, STEP = WARPS * Keys::KEYS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float output[GROUP][EACH] = {}, greatest[GROUP], total[GROUP] = {};
#pragma unroll
  for (int g = 0; g < GROUP; ++g) greatest[g] = -infinite();
  int tile = begin + warp * Keys::KEYS;
  if (tile < end) held.send(keys, values, tile, end);
  ready();
  for (; tile < end; tile += STEP) {
    held.arrived();
    float score[GROUP] = {};
#pragma unroll 2
    for (int n = lane % LANES; n < Keys::PIECES; n += LANES) {
      float k[8];
      held.key(k, lane, n);
#pragma unroll
      for (int g = 0; g < GROUP; ++g)
#pragma unroll
        for (int i = 0; i < 8; ++i) score[g] = fmaf(query[g * SIZE + n * 8 + i], k[i], score[g]);
    }
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
#pragma unroll
      for (int by = 1; by < LANES; by *= 2) score[g] += __shfl_xor_sync(0xffffffffu, score[g], by);
      if (tile + lane / LANES >= end) score[g] = -infinite();
      float most = score[g];
#pragma unroll
      for (int by = 16; by >= LANES; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, by));
      most = fmaxf(most, greatest[g]);
      const float shrink = power_of_two(greatest[g] - most);
      greatest[g] = most;
      score[g] = power_of_two(score[g] - most);
      total[g] = total[g] * shrink + (lane % LANES ? 0.f : score[g]);
#pragma unroll
      for (int e = 0; e < EACH; ++e) output[g][e] *= shrink;
    }
#pragma unroll 4
    for (int key = 0; key < Keys::KEYS; ++key) {
      float v[EACH];
      held.value(v, lane, key);
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const float share = __shfl_sync(0xffffffffu, score[g], key * LANES);
#pragma unroll
        for (int e = 0; e < EACH; ++e) output[g][e] = fmaf(share, v[e], output[g][e]);
      }
    }
    __syncwarp();
    if (tile + STEP < end) held.send(keys, values, tile + STEP, end);
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
    float most = -1e30f, sum = 0.f, all = 0.f;  // finite, for a part that has no key
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
