// Attention of up to 16 rows of one stream over its cache: keys in fixed splits, a block each, then the splits' sums.
//
// Where a split begins depends on the keys' positions alone, and keys that a row does not see add exactly nothing, so a
// row's bits depend on its own position only. A leaf stands at a position whose key in the cache is another token's; its
// own key lies further on, and a block of its own puts it in its place.
#pragma once
#include "common.cuh"

namespace tf {

// Splits of SHORT keys up to UNTIL_SHORT, where few of them would leave the device idle, of MIDDLE keys up to
// UNTIL_MIDDLE, and of LONG ones, whose sums cost little, from there on. plan.py says how many each is.
__device__ __forceinline__ int split_start(int split) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return split < A ? split * SHORT : split < B ? UNTIL_SHORT + (split - A) * MIDDLE : UNTIL_MIDDLE + (split - B) * LONG;
}

__device__ __forceinline__ int split_of(int position) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return position < UNTIL_SHORT    ? position / SHORT
         : position < UNTIL_MIDDLE ? A + (position - UNTIL_SHORT) / MIDDLE
                                   : B + (position - UNTIL_MIDDLE) / LONG;
}

// queries [rows, HEADS, SIZE], cache [2 KV, capacity, SIZE], keys over values; positions [rows + leaves]: of the rows,
// then where the keys of the leaves are, which are the last rows.
// sums [splits, rows, HEADS, SIZE], weights [splits, rows, HEADS, 2]: greatest score and sum of powers of two.
// Blocks (KV, splits + leaves) of HEADS / KV warps, a warp a head.
template <int HEADS, int KV, int SIZE>
__device__ __forceinline__ void attend_split(const bf16* queries, const bf16* cache, const int* positions, float* sums,
                                             float* weights, int rows, int leaves, int capacity) {
  constexpr int GROUP = HEADS / KV, THREADS = GROUP * 32, KEYS = 32, STEPS = SIZE / 16, ROW = SIZE * 2 + 16;
  __shared__ __align__(16) unsigned char memory[2][2][KEYS * ROW];  // [stage][keys, values]
  const int kv = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane / 4, pair = lane % 4, head = kv * GROUP + warp;
  const int leaf = int(blockIdx.y + leaves) - int(gridDim.y);  // of a block for one leaf, which; less than 0 elsewhere
  const int alone = rows - leaves + leaf;
  const int split = leaf < 0 ? blockIdx.y : split_of(positions[alone]);
  int last = leaf < 0 ? 0 : positions[alone];
  for (int row = 0; leaf < 0 && row < rows; ++row) last = max(last, positions[row]);
  const int begin = split_start(split), end = min(split_start(split + 1), last + 1);
  if (begin >= end) return;

  unsigned query[STEPS][4];
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = group + (part % 2) * 8, dim = k * 16 + (part / 2) * 8 + pair * 2;
      query[k][part] = row < rows ? *reinterpret_cast<const unsigned*>(queries + (size_t(row) * HEADS + head) * SIZE + dim) : 0u;
    }
  int seen[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group + half * 8;
    seen[half] = row < rows && (leaf < 0 || row == alone) ? positions[row] : -1;
  }

  auto load = [&](int stage, int at) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const unsigned to = shared_at(memory[stage][which]);
      for (int part = threadIdx.x; part < KEYS * SIZE / 8; part += THREADS) {
        const int key = part / (SIZE / 8), piece = part % (SIZE / 8);
        int place = min(at + key, last);  // what is past the last row is not seen, but must be there
        if (leaf >= 0 && place == last) place = positions[rows + leaf];
        copy_16(to + key * ROW + piece * 16, cache + (size_t(which * KV + kv) * capacity + place) * SIZE + piece * 8);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float output[SIZE / 8][4] = {}, greatest[2] = {-infinite(), -infinite()}, total[2] = {0.f, 0.f};
  const float scale = rsqrtf(float(SIZE)) * LOG2E;
  load(0, begin);
  int stage = 0;
  for (int at = begin; at < end; at += KEYS, stage ^= 1) {
    if (at + KEYS < end) {
      load(stage ^ 1, at + KEYS);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();

    float score[KEYS / 8][4] = {};
    const unsigned keys = shared_at(memory[stage][0]) + ((lane / 16) * 8 + lane % 8) * ROW + ((lane / 8) % 2) * 16;
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
      for (int two = 0; two < KEYS / 16; ++two) {
        unsigned b[4];
        load_matrices(b, keys + two * 16 * ROW + k * 32);
        multiply(score[two * 2], query[k], b[0], b[1]);
        multiply(score[two * 2 + 1], query[k], b[2], b[3]);
      }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = greatest[half];
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = at + tile * 8 + pair * 2 + c;
          float& one = score[tile][half * 2 + c];
          one = key <= seen[half] ? one * scale : -infinite();
          most = fmaxf(most, one);
        }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float from_most = most == -infinite() ? 0.f : most;  // a row that sees nothing yet
      const float shrink = power_of_two(greatest[half] - from_most);
      greatest[half] = most;
      total[half] *= shrink;
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& one = score[tile][half * 2 + c];
          one = power_of_two(one - from_most);
          total[half] += one;
        }
#pragma unroll
      for (int tile = 0; tile < SIZE / 8; ++tile) {
        output[tile][half * 2] *= shrink;
        output[tile][half * 2 + 1] *= shrink;
      }
    }

    const unsigned values = shared_at(memory[stage][1]) + (((lane / 8) % 2) * 8 + lane % 8) * ROW + (lane / 16) * 16;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const unsigned a[4] = {pack(score[k * 2][0], score[k * 2][1]), pack(score[k * 2][2], score[k * 2][3]),
                             pack(score[k * 2 + 1][0], score[k * 2 + 1][1]), pack(score[k * 2 + 1][2], score[k * 2 + 1][3])};
#pragma unroll
      for (int two = 0; two < SIZE / 16; ++two) {
        unsigned b[4];
        load_matrices_turned(b, values + k * 16 * ROW + two * 32);
        multiply(output[two * 2], a, b[0], b[1]);
        multiply(output[two * 2 + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
    const int row = group + half * 8;
    if (row >= rows) continue;
    if (leaf < 0 ? row >= rows - leaves && split_of(positions[row]) == split : row != alone) continue;
    const size_t at = (size_t(split) * rows + row) * HEADS + head;
    if (pair == 0) {
      weights[at * 2] = greatest[half];
      weights[at * 2 + 1] = total[half];
    }
#pragma unroll
    for (int tile = 0; tile < SIZE / 8; ++tile)
      *reinterpret_cast<float2*>(sums + at * SIZE + tile * 8 + pair * 2) = make_float2(output[tile][half * 2], output[tile][half * 2 + 1]);
  }
}

// The splits of every row and head, first to last: y [rows, HEADS * SIZE]. Blocks (HEADS, rows) of SIZE threads.
template <int HEADS, int SIZE>
__device__ __forceinline__ void attend_sum(const float* sums, const float* weights, const int* positions, bf16* y, int rows) {
  const int head = blockIdx.x, row = blockIdx.y, splits = split_of(positions[row]) + 1;
  const size_t first = size_t(row) * HEADS + head, step = size_t(rows) * HEADS;
  float most = -infinite();
  for (int split = 0; split < splits; ++split) most = fmaxf(most, weights[(first + split * step) * 2]);
  float output = 0.f, total = 0.f;
#pragma unroll 4
  for (int split = 0; split < splits; ++split) {
    const size_t at = first + split * step;
    const float share = power_of_two(weights[at * 2] - most);
    total += share * weights[at * 2 + 1];
    output += share * sums[at * SIZE + threadIdx.x];
  }
  y[first * SIZE + threadIdx.x] = bf16(output / total);
}

}  // namespace tf
